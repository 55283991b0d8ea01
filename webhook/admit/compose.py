"""Edits to patch operations: the only place that knows how a pod is written."""

from typing import Any

from webhook.admit.edits import (
    AddAffinityTerm,
    AddInitContainer,
    AddMount,
    AddVariable,
    AddVolume,
    Annotate,
    DropResource,
    Edit,
    Label,
    ReplaceContainer,
    ReplaceVariable,
    SetResource,
    SetSpec,
)
from webhook.model.patch import Operation, PatchBuilder
from webhook.model.pod import Affinity, Metadata, Pod, PodAffinity, PodSpec

_POD_AFFINITY = "/spec/affinity/podAffinity"


class Composer:
    """Turns edits of one pod into operations, one after the other; edits that are true already add nothing."""

    def __init__(self, pod: Pod) -> None:
        self._metadata = pod.metadata
        self._spec = pod.spec or PodSpec()
        self._patch = PatchBuilder()
        self._init_containers: list[dict[str, Any]] = []

    @property
    def size(self) -> int:
        """How many operations there are so far."""
        return len(self._patch.operations) + len(self._init_containers)

    def operations(self) -> list[Operation]:
        """The patch. New init containers come last: they shift the positions that other operations name."""
        for container in self._init_containers:
            exists = self._spec.init_containers is not None
            self._patch.insert_first("/spec/initContainers", container, exists=exists)
        self._init_containers.clear()
        return self._patch.operations

    def apply(self, edit: Edit) -> None:
        """Make ``edit`` true."""
        patch = self._patch
        match edit:
            case AddVariable(container=one):
                patch.append(one.path + "/env", _variable(edit), exists=one.container.env is not None)
            case Annotate():
                self._set_metadata("annotations", edit.key, edit.value)
            case AddMount(container=one):
                exists = one.container.volume_mounts is not None
                patch.append(one.path + "/volumeMounts", _mount(edit), exists=exists)
            case SetResource():
                self._set_resource(edit)
            case DropResource(container=one):
                patch.remove(f"{one.path}/resources/{edit.section}", edit.resource)
            case AddVolume():
                volume = {"name": edit.name, "emptyDir": edit.empty_dir}
                patch.append("/spec/volumes", volume, exists=self._spec.volumes is not None)
            case SetSpec():
                patch.put("/spec", edit.field, edit.value, exists=True, replaces=edit.replaces)
            case Label():
                self._set_metadata("labels", edit.key, edit.value)
            case AddAffinityTerm():
                self._add_affinity_term(edit)
            case ReplaceVariable(container=one):
                patch.replace(f"{one.path}/env/{edit.index}", {"name": edit.name, "value": edit.value})
            case ReplaceContainer(container=one):
                patch.replace(one.path, edit.value)
            case AddInitContainer():
                self._init_containers.append(edit.container)

    def _set_resource(self, edit: SetResource) -> None:
        resources = edit.container.container.resources
        path = f"{edit.container.path}/resources/{edit.section}"
        exists = getattr(resources, edit.section) is not None
        self._patch.put(path, edit.resource, edit.value, exists=exists, replaces=edit.replaces)

    def _set_metadata(self, field: str, key: str, value: str) -> None:
        metadata = self._metadata or Metadata()
        present: dict[str, str] | None = metadata.annotations if field == "annotations" else metadata.labels
        own = present.get(key) if present else None
        if own == value:
            return
        self._patch.ensure("/metadata", exists=self._metadata is not None)
        self._patch.put(f"/metadata/{field}", key, value, exists=present is not None, replaces=own is not None)

    def _add_affinity_term(self, edit: AddAffinityTerm) -> None:
        affinity = self._spec.affinity or Affinity()
        present = affinity.pod_affinity or PodAffinity()
        terms = present.required if edit.required else present.preferred
        self._patch.ensure("/spec/affinity", exists=self._spec.affinity is not None)
        self._patch.ensure(_POD_AFFINITY, exists=affinity.pod_affinity is not None)
        field = "requiredDuringSchedulingIgnoredDuringExecution"
        if not edit.required:
            field = "preferredDuringSchedulingIgnoredDuringExecution"
        self._patch.append(f"{_POD_AFFINITY}/{field}", edit.term, exists=terms is not None)


def _variable(edit: AddVariable) -> dict[str, Any]:
    if edit.field_path:
        return {"name": edit.name, "valueFrom": {"fieldRef": {"fieldPath": edit.field_path}}}
    return {"name": edit.name, "value": edit.value}


def _mount(edit: AddMount) -> dict[str, Any]:
    mount: dict[str, Any] = {"name": edit.volume, "mountPath": edit.path}
    if edit.read_only:
        mount["readOnly"] = True
    return mount

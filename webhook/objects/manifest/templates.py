"""The objects of a manifest and the pod templates in them, found by structure in any kind."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.opting import MISPLACED_OPTION
from webhook.words.patch import pointer
from webhook.words.printable import fitted

Keys = tuple[str | int, ...]
_NO_ROLE = re.compile(r"(^spec|Specs?|(^t|T)emplate|Group)+$")
"""The part of a field's name that is the same for each role: ``head`` remains of ``headGroupSpec``."""


class ManifestObject(msgspec.Struct, frozen=True):
    """One Kubernetes object: a document, or an item of a List."""

    keys: Keys
    """The path from the document to the object."""
    value: Any
    kind: str
    """The kind of the object; ``object`` if it has none."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the object, empty if it has none."""
        metadata = self.value.get("metadata") if isinstance(self.value, Mapping) else None
        return metadata if isinstance(metadata, Mapping) else {}

    @property
    def name(self) -> str:
        """The name of the object, or the beginning of the name that it will get; ``pod`` if it has neither."""
        return str(self.metadata.get("name") or self.metadata.get("generateName") or "pod").rstrip("-")

    @property
    def namespace(self) -> str:
        """The namespace that the object names; empty if it names none."""
        return str(self.metadata.get("namespace") or "")


class Template(msgspec.Struct, frozen=True):
    """A pod, or a pod template, inside a document."""

    keys: Keys
    """The path from the document to the template; empty for a Pod."""
    value: Any
    """The mapping of the template, with ``metadata`` and ``spec``."""
    owner: ManifestObject
    """The object that contains the template, or that is the pod itself."""

    @property
    def path(self) -> str:
        """The JSON pointer from the document to the template; empty for a Pod."""
        return pointer(*self.keys)

    @property
    def is_pod(self) -> bool:
        """Whether the object is itself the pod, and no workload that makes some."""
        return self.keys == self.owner.keys

    @property
    def pod(self) -> Mapping[str, Any]:
        """The mapping as the controller sends it: Volcano copies the scheduler of a Job into pods that name none.

        Source: volcano.sh/volcano pkg/controllers/job/job_controller_util.go; pkg/webhooks/admission/jobs/mutate.
        """
        node: Any = self.owner.value
        value: Mapping[str, Any] = self.value
        version = node.get("apiVersion") if isinstance(node, Mapping) else ""
        is_of_volcano = str(version).partition("/")[0].endswith(names.VOLCANO_API)
        if not is_of_volcano or value["spec"].get("schedulerName"):
            return value
        for key in self.keys[len(self.owner.keys) :]:
            if key == "tasks":
                scheduler = str(node.get("schedulerName") or names.VOLCANO_SCHEDULER)
                return {**value, "spec": {**value["spec"], "schedulerName": scheduler}}
            node = node[key]
        return value

    @property
    def part(self) -> str:
        """The role of the template among those of its workload, such as ``worker``, in the form of an object's name.

        It is the ``name`` or ``groupName`` of the item of the list in which the template is, such as a replicated job;
        else the field in which it is, such as ``Master`` or ``headGroupSpec``. It may be empty.
        """
        node, part = self.owner.value, ""
        for key in self.keys[len(self.owner.keys) :]:
            node = node[key]
            part = _role(key, node) or part
        return part

    @property
    def asks_for_gpus(self) -> bool:
        """Whether a container asks for a resource named after GPUs, or the pod has resource claims."""
        spec = self.value["spec"]
        init = spec.get("initContainers")
        containers = [*spec["containers"], *(init if isinstance(init, list) else ())]
        asked = (each.get("resources") for each in containers if isinstance(each, Mapping))
        return bool(spec.get("resourceClaims")) or any(isinstance(each, Mapping) and _asks(each) for each in asked)


def find_objects(document: Any, keys: Keys = ()) -> Iterator[ManifestObject]:
    """Yields the document as one object, or the items of a List, in order."""
    kind = document.get("kind") if isinstance(document, Mapping) else None
    items = document.get("items") if isinstance(document, Mapping) else None
    if not isinstance(kind, str):
        yield ManifestObject(keys, document, "object")
    elif kind.endswith("List") and isinstance(items, list):
        # In a PodList the items have no kind of their own: apimachinery pkg/runtime.
        for index, item in enumerate(items):
            bare = isinstance(item, Mapping) and "kind" not in item
            if bare and kind != "List":
                yield ManifestObject((*keys, "items", index), item, kind.removesuffix("List"))
            else:
                yield from find_objects(item, (*keys, "items", index))
    else:
        yield ManifestObject(keys, document, kind)


def find_templates(document: Any) -> list[Template]:
    """Returns every pod template of a document, in order.

    A template is a mapping whose ``spec`` has a list ``containers`` of named mappings. That holds for a Pod and, at any
    depth, for Deployments, Jobs, CronJobs, the kinds of Kubeflow, Ray, JobSet, LeaderWorkerSet and Volcano, Lists of
    them, and kinds that this program does not know. An object of another kind than Pod, such as KServe's
    ServingRuntime, is no template itself, because its metadata is not that of a pod.
    """
    return [template for found in find_objects(document) for template in _walk(found.value, found.keys, found)]


def misplaced_options(template: Template, *, in_object: bool = False) -> Iterator[Message]:
    """Yields a message for each annotation and label of ours on a parent of a pod template that the template lacks.

    Args:
        template: The template.
        in_object: Whether places are named as in the object, and not as in its document, which may be a List.
    """
    begin = len(template.owner.keys) if in_object else 0
    for depth in range(len(template.owner.keys), len(template.keys)):
        holder = _at(template.owner, template.keys[:depth])
        for field in ("annotations", "labels"):
            own = _texts(template.value, field)
            found = pointer(*template.keys[begin:depth], "metadata", field)
            for key in _texts(holder, field):
                if isinstance(key, str) and key.startswith(names.PREFIX) and key not in own:
                    kind, wanted = field.removesuffix("s"), pointer(*template.keys[begin:], "metadata", field)
                    yield MISPLACED_OPTION.say(kind=kind, key=fitted(key), found=found, wanted=wanted)


def find_bare_containers(found: ManifestObject) -> Iterator[Keys]:
    """Yields the paths from the document to containers of an object that are in no pod template.

    They are found by structure: a list ``containers`` of mappings outside templates, as in KServe's InferenceService; a
    mapping ``mainContainer``, as in Dynamo's DynamoGraphDeployment; and limits or requests of GPUs, which both kinds
    also have without naming a container.
    """
    yield from _bare(found.value, found.keys)


def _role(key: str | int, child: Any) -> str:
    """Returns what a step to ``child`` says of the role of a template; empty if it says nothing."""
    if isinstance(key, int):
        named = (child.get(name) for name in ("groupName", "name")) if isinstance(child, Mapping) else ()
        return next((name for name in named if isinstance(name, str)), str(key))
    return _NO_ROLE.sub("", key).lower()


def _walk(value: Any, keys: Keys, owner: ManifestObject) -> Iterator[Template]:
    if _is_template(value):
        yield Template(keys, value, owner)
        return
    for key, child in _children(value):
        yield from _walk(child, (*keys, key), owner)


def _bare(value: Any, keys: Keys) -> Iterator[Keys]:
    if _is_template(value):
        return
    if _is_bare(value):
        yield keys
        return
    for key, child in _children(value):
        yield from _bare(child, (*keys, key))


def _children(value: Any) -> Iterable[tuple[str | int, Any]]:
    """Returns the direct children of a mapping or a list, with their keys or positions."""
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _is_bare(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    containers = value.get("containers")
    has_containers = (
        isinstance(containers, list) and containers and all(isinstance(container, Mapping) for container in containers)
    )
    return bool(has_containers) or isinstance(value.get("mainContainer"), Mapping) or _asks(value)


def _asks(resources: Mapping[str, Any]) -> bool:
    """Returns whether resources ask for GPUs: by a resource of a vendor, or by Dynamo's own word ``gpu``."""
    lists = [resources.get("limits"), resources.get("requests")]
    keys = [key for amounts in lists if isinstance(amounts, Mapping) for key in amounts if isinstance(key, str)]
    return any(key == "gpu" or "gpu" in key.partition("/")[2] for key in keys)


def _is_template(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("kind") in (None, "Pod") and _has_containers(value.get("spec"))


def _has_containers(spec: Any) -> bool:
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    if not isinstance(containers, Sequence) or isinstance(containers, str | bytes) or not containers:
        return False
    return all(isinstance(container, Mapping) and "name" in container for container in containers)


def _at(owner: ManifestObject, keys: tuple[str | int, ...]) -> Any:
    node = owner.value
    for key in keys[len(owner.keys) :]:
        node = node[key]
    return node


def _texts(holder: Any, field: str) -> Mapping[Any, Any]:
    metadata = holder.get("metadata") if isinstance(holder, Mapping) else None
    found = metadata.get(field) if isinstance(metadata, Mapping) else None
    return found if isinstance(found, Mapping) else {}

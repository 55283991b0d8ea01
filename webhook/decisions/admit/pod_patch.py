"""The patch of one pod. Steps name changes of a pod; this module writes them as operations of JSON Patch.

Operations are built directly, never by comparing documents, which would cost fifty times as much. ``add`` to a member
whose parent is missing (or ``null``) fails in the API server, so the first addition to a missing parent creates it.
"""

from functools import lru_cache
from typing import Any

import msgspec
from jsonpointer import escape

from webhook.decisions.admit import entries
from webhook.decisions.admit.budget import Budget
from webhook.decisions.admit.container import PodContainer
from webhook.objects.pod import Affinity, Metadata, Pod, PodAffinity, PodSpec, Quantity, Reference, is_present
from webhook.words.catalogue.entry import Message
from webhook.words.outcome import AdmissionWarning, Reason, Refused
from webhook.words.patch import Operation, pointer

_POD_AFFINITY = "/spec/affinity/podAffinity"


# The keys that patches name are few and constant: resource names, annotations, fields.
@lru_cache(maxsize=256)
def _member(path: str, key: str) -> str:
    return f"{path}/{escape(key)}"


class PodPatch:
    """The patch of a pod, which collects operations and warnings.

    To label or annotate a pod with a value that it already has adds nothing.

    Args:
        pod: The pod before the patch.
        budget: The limits of the patch. Each method raises LimitError where it is spent.
    """

    def __init__(self, pod: Pod, budget: Budget) -> None:
        self._budget = budget
        self._metadata = pod.metadata or Metadata()
        self._spec = pod.spec or PodSpec()
        self._created: set[str] = {"/metadata"} if pod.metadata else set()
        self.operations: list[Operation] = []
        self.insertions: list[Operation] = []
        """Operations that shift the positions that others name, and so come last."""
        self.annotated: set[str] = set()
        """The annotations that steps have set, changed or not."""
        self.warnings: list[AdmissionWarning] = []
        self.refusals: list[Refused] = []
        """The reasons why the pod cannot be admitted, which are reported together."""

    @property
    def size(self) -> int:
        """The number of operations."""
        return len(self.operations) + len(self.insertions)

    def warn(self, message: Message, reason: Reason | None = None) -> None:
        """Adds a warning. With a ``reason``, the pod will not get all that its profile promises."""
        self.warnings.append(AdmissionWarning(str(message), reason))

    def refuse(self, reason: Reason, message: Message) -> None:
        """Adds a reason why the pod is refused, and lets the step go on to find others."""
        self.refusals.append(Refused(reason, message))

    def add_variable(self, container: PodContainer, name: str, value: str) -> None:
        """Appends a literal to a container's ``env``."""
        self._append(container.env_path, entries.variable(name, value), container.has_env)

    def add_reference(self, container: PodContainer, name: str, source: Reference) -> None:
        """Appends a variable that takes its value from elsewhere to a container's ``env``."""
        self._append(container.env_path, entries.reference(name, source), container.has_env)

    def replace_variable(self, container: PodContainer, index: int, name: str, value: str) -> None:
        """Replaces the entry at ``index`` of a container's ``env`` by a literal."""
        self._replace(f"{container.env_path}/{index}", entries.variable(name, value))

    def add_mount(self, container: PodContainer, volume: str, path: str, *, read_only: bool = False) -> None:
        """Appends a volume mount to a container."""
        exists = is_present(container.spec.mounts_json)
        self._append(container.path + "/volumeMounts", entries.mount(volume, path, read_only), exists)

    def add_empty_dir(self, name: str, *, size_limit: str, medium: str = "") -> None:
        """Appends an ``emptyDir`` volume to the pod."""
        exists = is_present(self._spec.volumes_json)
        self._append("/spec/volumes", entries.empty_dir(name, medium, size_limit), exists)

    def set_resource(self, container: PodContainer, section: str, resource: str, value: Quantity) -> None:
        """Sets one resource in ``section`` (``limits`` or ``requests``) of a container."""
        present: dict[str, Quantity] | None = getattr(container.spec.resources, section)
        self._put(f"{container.path}/resources/{section}", resource, value, present)

    def drop_resource(self, container: PodContainer, section: str, resource: str) -> None:
        """Removes a resource, which must be there, from ``section`` of a container."""
        self._write(Operation("remove", _member(f"{container.path}/resources/{section}", resource)))

    def annotate(self, key: str, value: str) -> None:
        """Gives a pod annotation this value, whatever it had before."""
        self.annotated.add(key)
        self._put_metadata("/metadata/annotations", key, value, self._metadata.annotations)

    def drop_annotation(self, key: str) -> None:
        """Removes a pod annotation, which must be there."""
        # The user may have chosen the key, of any length: its path is not cached.
        self._write(Operation("remove", pointer("metadata", "annotations", key)))

    def label(self, key: str, value: str) -> None:
        """Gives a pod label this value, whatever it had before."""
        self._put_metadata("/metadata/labels", key, value, self._metadata.labels)

    def drop_label(self, key: str) -> None:
        """Removes a pod label, which must be there."""
        self._write(Operation("remove", _member("/metadata/labels", key)))

    def add_gate(self, name: str) -> None:
        """Appends a scheduling gate, which must not be there."""
        self._append("/spec/schedulingGates", {"name": name}, is_present(self._spec.scheduling_gates_json))

    def set_spec(self, field: str, value: str | bool, *, replaces: bool = False) -> None:
        """Sets one field of the pod's ``spec``; ``replaces`` tells that the field has a value."""
        self._write(Operation("replace" if replaces else "add", f"/spec/{field}", value))

    def add_affinity_term(self, field: str, term: dict[str, Any]) -> None:
        """Appends a term to one of the lists of ``affinity.podAffinity``."""
        affinity = self._spec.affinity
        present = (affinity or Affinity()).pod_affinity
        self._ensure("/spec/affinity", affinity is not None)
        self._ensure(_POD_AFFINITY, present is not None)
        terms = (present or PodAffinity()).terms(field)
        self._append(f"{_POD_AFFINITY}/{field}", term, terms is not None)

    def insert_init_container(self, container: msgspec.Raw) -> None:
        """Inserts a container, given as JSON, before all init containers."""
        if not is_present(self._spec.init_containers_json):
            insertion = Operation("add", "/spec/initContainers", [container])
        else:
            insertion = Operation("add", "/spec/initContainers/0", container)
        self._budget.spend(insertion)
        self.insertions.append(insertion)

    def move_first(self, present: PodContainer, container: msgspec.Raw) -> None:
        """Moves our container before all init containers, and gives it its present form, given as JSON."""
        for operation in (Operation("remove", present.path), Operation("add", "/spec/initContainers/0", container)):
            self._budget.spend(operation)
            self.insertions.append(operation)

    def replace_container(self, present: PodContainer, container: msgspec.Raw) -> None:
        """Replaces our container by its present form, given as JSON."""
        self._replace(present.path, container)

    def _append(self, path: str, item: Any, exists: bool) -> None:
        if exists or path in self._created:
            self._write(Operation("add", path + "/-", item))
        else:
            self._create(path, [item])

    def _put(self, path: str, key: str, value: Any, present: dict[str, Any] | None) -> None:
        if present is None and path not in self._created:
            self._create(path, {key: value})
        else:
            op = "replace" if present and key in present else "add"
            self._write(Operation(op, _member(path, key), value))

    def _put_metadata(self, path: str, key: str, value: str, present: dict[str, str] | None) -> None:
        if present is None or present.get(key) != value:
            self._ensure("/metadata", False)
            self._put(path, key, value, present)

    def _replace(self, path: str, value: Any) -> None:
        self._write(Operation("replace", path, value))

    def _ensure(self, path: str, exists: bool) -> None:
        if not exists and path not in self._created:
            self._create(path, {})

    def _create(self, path: str, value: Any) -> None:
        self._write(Operation("add", path, value))
        self._created.add(path)

    def _write(self, operation: Operation) -> None:
        self._budget.spend(operation)
        self.operations.append(operation)

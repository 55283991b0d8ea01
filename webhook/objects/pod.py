"""The fields of a pod that are read.

No other field becomes a Python object, which halves the cost of a review. An unknown field cannot be lost, because
patches touch only what they name. The fields that only injection looks at (``env``, mounts, volumes, affinity) stay
JSON until a step needs them, because most pods are skipped. The types are lenient (``null`` lists, numbers as
quantities), because the API server accepts more spellings than one.
"""

from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from webhook.words import names
from webhook.words.errors import GpuTopologyError
from webhook.words.nesting import Document, decode, decode_answer
from webhook.words.printable import fitted
from webhook.words.shape import shape_problem
from webhook.words.timestamp import parse_timestamp

Quantity = str | int | float

_T = TypeVar("_T")
_ABSENT = (b"", b"null")
NAME_LIMIT = 256
"""The most characters of a name in messages. Valid names have 253 at most: apimachinery util/validation,
IsDNS1123Subdomain."""
REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"


class MalformedPod(GpuTopologyError):
    """A field that is read has another type than in a pod. The API server never sends such a pod."""


class Fields(msgspec.Struct, rename="camel", gc=False):
    """The base of all types that are decoded from a manifest."""


class FieldRef(Fields):
    """A downward-API reference."""

    field_path: str = ""


class FileKeyRef(Fields):
    """A reference to a line of a file in a volume of the pod: Kubernetes 1.35."""

    volume_name: str = ""
    path: str = ""
    key: str = ""
    optional: bool | None = None


class EnvVarSource(Fields):
    """The source of the value of a variable; other sources are not looked at."""

    field_ref: FieldRef | None = None
    file_key_ref: FileKeyRef | None = None


class Reference(msgspec.Struct, frozen=True):
    """The source of the value of an injected variable: a downward-API field, or a line of the env file."""

    field_path: str = ""
    volume: str = ""
    line: str = ""


class EnvVar(Fields):
    """One entry of ``env``."""

    name: str
    value: str | None = None
    value_from: EnvVarSource | None = None

    def is_literal(self, text: str) -> bool:
        """Returns whether the pod itself gives the variable this value."""
        return self.value_from is None and self.value == text

    def reads(self, reference: "Reference") -> bool:
        """Returns whether the value comes from a reference, and from no other source.

        An optional line that is missing leaves the variable to the image, which may ask for every GPU.
        """
        source = self.value_from
        if source is None:
            return False
        if source.field_ref is not None:
            return bool(reference.field_path) and source.field_ref.field_path == reference.field_path
        line = source.file_key_ref
        return (
            line is not None
            and not line.optional
            and (line.volume_name, line.path, line.key)
            == (
                reference.volume,
                names.ENV_FILE,
                reference.line,
            )
        )


class VolumeMount(Fields):
    """One entry of ``volumeMounts``."""

    name: str
    mount_path: str
    read_only: bool | None = None


class ClaimReference(Fields):
    """An entry of ``resources.claims`` of a container."""

    name: str
    """The name of an entry of ``spec.resourceClaims``."""
    request: str | None = None
    """One request of that claim; without it, the container gets all devices of the claim."""


class Resources(Fields):
    """The ``resources`` of a container."""

    limits: dict[str, Quantity] | None = None
    requests: dict[str, Quantity] | None = None
    claims_json: msgspec.Raw = msgspec.field(name="claims", default=msgspec.Raw())

    @property
    def claims(self) -> list[ClaimReference]:
        """The references to resource claims of the pod, ``claims``."""
        return _decode(self.claims_json, _CLAIM_REFERENCES, "claims of resources") or []


class Owner(Fields):
    """An entry of ``ownerReferences``: an object that made the pod."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class PodClaim(Fields):
    """An entry of ``spec.resourceClaims``."""

    name: str
    resource_claim_name: str | None = None
    """The ResourceClaim, if the pod names it itself. Other pods may share it."""
    resource_claim_template_name: str | None = None


class PodClaimStatus(Fields):
    """An entry of ``status.resourceClaimStatuses``: the ResourceClaim that was made from a template."""

    name: str
    resource_claim_name: str | None = None
    """The name of the ResourceClaim; absent where the pod needs none."""


class SchedulingGroup(Fields):
    """``spec.schedulingGroup``: the PodGroup of a pod, from Kubernetes 1.36 on."""

    pod_group_name: str | None = None


class WorkloadReference(Fields):
    """``spec.workloadRef``: a pod group within a Workload, in Kubernetes 1.35 alone."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class RequestMapping(Fields):
    """The request of a ResourceClaim that serves an extended resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedClaim(Fields):
    """``status.extendedResourceClaimStatus``: the ResourceClaim that serves extended resources of the pod."""

    resource_claim_name: str = ""
    request_mappings: list[RequestMapping] | None = None


class _Gate(Fields):
    name: str


class _SecurityContext(Fields):
    privileged: bool | None = None
    run_as_user: int | None = None


class _Exec(Fields):
    command: list[str] | None = None


class _Handler(Fields):
    """A probe, or one hook of a lifecycle, as far as it runs a command."""

    action: _Exec | None = msgspec.field(name="exec", default=None)


class _Lifecycle(Fields):
    post_start: _Handler | None = None
    pre_stop: _Handler | None = None


class Container(Fields, gc=True, dict=True):
    """A container. Each field that stays JSON is decoded once at most, because a user may write megabytes of it."""

    name: str
    resources: Resources | None = None
    env_json: msgspec.Raw = msgspec.field(name="env", default=msgspec.Raw())
    env_from_json: msgspec.Raw = msgspec.field(name="envFrom", default=msgspec.Raw())
    mounts_json: msgspec.Raw = msgspec.field(name="volumeMounts", default=msgspec.Raw())
    security_context_json: msgspec.Raw = msgspec.field(name="securityContext", default=msgspec.Raw())
    command_json: msgspec.Raw = msgspec.field(name="command", default=msgspec.Raw())
    args_json: msgspec.Raw = msgspec.field(name="args", default=msgspec.Raw())
    liveness_json: msgspec.Raw = msgspec.field(name="livenessProbe", default=msgspec.Raw())
    readiness_json: msgspec.Raw = msgspec.field(name="readinessProbe", default=msgspec.Raw())
    startup_json: msgspec.Raw = msgspec.field(name="startupProbe", default=msgspec.Raw())
    lifecycle_json: msgspec.Raw = msgspec.field(name="lifecycle", default=msgspec.Raw())

    @property
    def command_fields(self) -> tuple[msgspec.Raw, ...]:
        """The fields with commands, as JSON."""
        return (
            self.command_json,
            self.args_json,
            self.liveness_json,
            self.readiness_json,
            self.startup_json,
            self.lifecycle_json,
        )

    @property
    def command(self) -> list[str]:
        """The words of ``command``."""
        return _decode(self.command_json, _WORDS, f"command of container {self.name}") or []

    @property
    def arguments(self) -> list[str]:
        """The words of ``args``."""
        return _decode(self.args_json, _WORDS, f"args of container {self.name}") or []

    @cached_property
    def commands(self) -> list[str]:
        """The words of all commands of the container: ``command``, ``args``, probes and lifecycle hooks."""
        place = f"of container {self.name}"
        words = [*self.command, *self.arguments]
        lifecycle = _decode(self.lifecycle_json, _LIFECYCLE, f"lifecycle {place}") or _Lifecycle()
        handlers = [
            _decode(self.liveness_json, _PROBE, f"livenessProbe {place}"),
            _decode(self.readiness_json, _PROBE, f"readinessProbe {place}"),
            _decode(self.startup_json, _PROBE, f"startupProbe {place}"),
            lifecycle.post_start,
            lifecycle.pre_stop,
        ]
        for handler in handlers:
            if handler and handler.action:
                words += handler.action.command or []
        return words

    @cached_property
    def env(self) -> list[EnvVar] | None:
        """The decoded ``env``."""
        return _decode(self.env_json, _ENV, f"env of container {self.name}")

    @property
    def has_env_from(self) -> bool:
        """Whether the container takes all variables of ConfigMaps or Secrets."""
        sources = _decode(self.env_from_json, _APART, f"envFrom of container {self.name}")
        return bool(sources)

    @cached_property
    def volume_mounts(self) -> list[VolumeMount] | None:
        """The decoded ``volumeMounts``."""
        return _decode(self.mounts_json, _MOUNTS, f"volumeMounts of container {self.name}")

    @property
    def is_privileged(self) -> bool:
        """Whether the container runs with all capabilities and devices of the host."""
        context = self._security_context
        return bool(context and context.privileged)

    @property
    def run_as_user(self) -> int | None:
        """The numeric user that the container names itself; ``None``: the pod decides, or the image."""
        context = self._security_context
        return context.run_as_user if context else None

    @cached_property
    def _security_context(self) -> _SecurityContext | None:
        return _decode(self.security_context_json, _SECURITY, f"securityContext of container {self.name}")


class InitContainer(Container):
    """An init container; restartable ones are native sidecars."""

    restart_policy: str | None = None


class EmptyDir(Fields):
    """An ``emptyDir`` volume source."""

    medium: str | None = None
    size_limit: Quantity | None = None


class HostPath(Fields):
    """A ``hostPath`` volume source."""

    path: str = ""


class Volume(Fields):
    """A volume; sources other than ``emptyDir`` and ``hostPath`` are not looked at."""

    name: str
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None

    @property
    def is_shared_memory_of_node(self) -> bool:
        """True for the node's ``/dev/shm``, which is one device for all pods of the node."""
        return self.host_path is not None and self.host_path.path.rstrip("/") == names.SHARED_MEMORY_PATH


class PodAffinity(Fields):
    """The two lists of terms of ``affinity.podAffinity``; the terms stay as they are."""

    required: list[dict[str, Any]] | None = msgspec.field(name=REQUIRED_TERMS, default=None)
    preferred: list[dict[str, Any]] | None = msgspec.field(name=PREFERRED_TERMS, default=None)

    def terms(self, field: str) -> list[dict[str, Any]] | None:
        """Returns one of the lists by its name in a pod."""
        return self.required if field == REQUIRED_TERMS else self.preferred


class _Term(Fields):
    """One term of the required node affinity, reduced to its lists of expressions and fields."""

    match_expressions: list[Any] | None = None
    match_fields: list[Any] | None = None


class _NodeSelector(Fields):
    node_selector_terms: list[_Term | None] | None = None


class _NodeAffinity(Fields):
    required: _NodeSelector | None = msgspec.field(name=REQUIRED_TERMS, default=None)


class Affinity(Fields):
    """The ``affinity`` of a pod: the attraction between pods, and the nodes that the pod must have."""

    pod_affinity: PodAffinity | None = None
    node_affinity: _NodeAffinity | None = None

    @property
    def has_empty_node_term(self) -> bool:
        """Whether a term of the required node affinity asks for nothing, and so matches no node."""
        required = self.node_affinity.required if self.node_affinity else None
        terms = (required.node_selector_terms if required else None) or ()
        return not all(term and (term.match_expressions or term.match_fields) for term in terms)


class PodSpec(Fields, gc=True, dict=True):
    """The ``spec`` of a pod. Each field that stays JSON is decoded once at most, as in a container."""

    containers: list[Container] | None = None
    init_containers_json: msgspec.Raw = msgspec.field(name="initContainers", default=msgspec.Raw())
    volumes_json: msgspec.Raw = msgspec.field(name="volumes", default=msgspec.Raw())
    affinity_json: msgspec.Raw = msgspec.field(name="affinity", default=msgspec.Raw())
    resource_claims_json: msgspec.Raw = msgspec.field(name="resourceClaims", default=msgspec.Raw())
    scheduling_gates_json: msgspec.Raw = msgspec.field(name="schedulingGates", default=msgspec.Raw())
    host_ipc: bool | None = msgspec.field(name="hostIPC", default=None)
    host_pid: bool | None = msgspec.field(name="hostPID", default=None)
    host_network: bool | None = None
    hostname: str | None = None
    share_process_namespace: bool | None = None
    dns_policy: str | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    runtime_class_name: str | None = None
    security_context_json: msgspec.Raw = msgspec.field(name="securityContext", default=msgspec.Raw())
    priority: int | None = None
    preemption_policy: str | None = None
    overhead_json: msgspec.Raw = msgspec.field(name="overhead", default=msgspec.Raw())
    resources_json: msgspec.Raw = msgspec.field(name="resources", default=msgspec.Raw())
    node_selector_json: msgspec.Raw = msgspec.field(name="nodeSelector", default=msgspec.Raw())
    tolerations_json: msgspec.Raw = msgspec.field(name="tolerations", default=msgspec.Raw())
    scheduling_group_json: msgspec.Raw = msgspec.field(name="schedulingGroup", default=msgspec.Raw())
    workload_ref_json: msgspec.Raw = msgspec.field(name="workloadRef", default=msgspec.Raw())

    @property
    def overhead(self) -> dict[str, Quantity] | None:
        """The amounts that the RuntimeClass adds to the requests of the containers."""
        return _decode(self.overhead_json, _AMOUNTS, "overhead")

    @property
    def resources(self) -> Resources | None:
        """The requests and limits of the pod as a whole: Kubernetes 1.34."""
        return _decode(self.resources_json, _RESOURCES, "resources of the pod")

    @property
    def scheduling_group(self) -> str:
        """The name of the PodGroup of Kubernetes itself; empty: the pod names none."""
        found = _decode(self.scheduling_group_json, _SCHEDULING_GROUP, "schedulingGroup")
        return (found.pod_group_name if found else None) or ""

    @property
    def workload_ref(self) -> WorkloadReference | None:
        """The decoded ``workloadRef``."""
        return _decode(self.workload_ref_json, _WORKLOAD_REF, "workloadRef")

    @property
    def run_as_user(self) -> int | None:
        """The numeric user of containers that name none; ``None``: their images decide."""
        context = _decode(self.security_context_json, _SECURITY, "securityContext of the pod")
        return context.run_as_user if context else None

    @cached_property
    def resource_claims(self) -> list[PodClaim]:
        """The decoded ``resourceClaims``."""
        return _decode(self.resource_claims_json, _POD_CLAIMS, "resourceClaims") or []

    @cached_property
    def scheduling_gates(self) -> list[str]:
        """The names of ``schedulingGates``, in their order."""
        return [gate.name for gate in _decode(self.scheduling_gates_json, _GATES, "schedulingGates") or ()]

    @cached_property
    def init_containers(self) -> list[InitContainer] | None:
        """The decoded ``initContainers``."""
        return _decode(self.init_containers_json, _INIT_CONTAINERS, "initContainers")

    def init_container_document(self, index: int) -> dict[str, Any]:
        """Returns one of ``initContainers`` with all its fields."""
        return _decode(self._init_containers_apart[index], _DOCUMENT, f"initContainers[{index}]") or {}

    @cached_property
    def _init_containers_apart(self) -> list[msgspec.Raw]:
        return _decode(self.init_containers_json, _APART, "initContainers") or []

    @cached_property
    def volumes(self) -> list[Volume] | None:
        """The decoded ``volumes``."""
        return _decode(self.volumes_json, _VOLUMES, "volumes")

    @cached_property
    def affinity(self) -> Affinity | None:
        """The decoded ``affinity``."""
        return _decode(self.affinity_json, _AFFINITY, "affinity")


class Metadata(Fields):
    """The ``metadata`` of a pod."""

    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    owner_references_json: msgspec.Raw = msgspec.field(name="ownerReferences", default=msgspec.Raw())


class PodCondition(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """An entry of ``status.conditions``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


NO_CONDITION = PodCondition()


class Terminated(Fields):
    """The end of a container."""

    exit_code: int | None = None
    reason: str = ""
    message: str = ""


class Waiting(Fields):
    """The reason why a container has not started."""

    reason: str = ""
    message: str = ""


class Running(Fields):
    """A container that runs."""

    started_at: str | None = None


class ContainerState(Fields):
    """The ``state`` or ``lastState`` of a container."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Fields):
    """An entry of ``status.initContainerStatuses`` or ``status.containerStatuses``."""

    name: str = ""
    started: bool | None = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodStatus(Fields):
    """The ``status`` of a pod."""

    phase: str | None = None
    start_time: str | None = None
    """The time when the kubelet took the pod on, by the clock of its node."""
    nominated_node_name: str | None = None
    """The node on which kube-scheduler makes room for the pod."""
    conditions_json: msgspec.Raw = msgspec.field(name="conditions", default=msgspec.Raw())
    init_containers_json: msgspec.Raw = msgspec.field(name="initContainerStatuses", default=msgspec.Raw())
    containers_json: msgspec.Raw = msgspec.field(name="containerStatuses", default=msgspec.Raw())
    resource_claims_json: msgspec.Raw = msgspec.field(name="resourceClaimStatuses", default=msgspec.Raw())
    extended_resource_claim_json: msgspec.Raw = msgspec.field(name="extendedResourceClaimStatus", default=msgspec.Raw())

    @property
    def conditions(self) -> dict[str, PodCondition]:
        """The decoded ``conditions``, by their types."""
        found = _decode(self.conditions_json, _CONDITIONS, "conditions of the status") or ()
        return {condition.type: condition for condition in found}

    @property
    def init_containers(self) -> list[ContainerStatus]:
        """The decoded ``initContainerStatuses``."""
        return _decode(self.init_containers_json, _CONTAINER_STATUSES, "initContainerStatuses") or []

    @property
    def containers(self) -> list[ContainerStatus]:
        """The decoded ``containerStatuses``."""
        return _decode(self.containers_json, _CONTAINER_STATUSES, "containerStatuses") or []

    @property
    def resource_claims(self) -> list[PodClaimStatus]:
        """The decoded ``resourceClaimStatuses``, which exist for templates only."""
        return _decode(self.resource_claims_json, _CLAIM_STATUSES, "resourceClaimStatuses") or []

    @property
    def extended_claim(self) -> ExtendedClaim | None:
        """The decoded ``extendedResourceClaimStatus``. After a refused Binding its claim may no longer exist."""
        return _decode(self.extended_resource_claim_json, _EXTENDED_CLAIM, "extendedResourceClaimStatus")


class Pod(Fields):
    """A pod, or a pod template."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the pod may still get a node: it has not ended, and is not being deleted."""
        phase = self.status.phase if self.status else None
        return phase in (None, "", "Pending") and not (self.metadata and self.metadata.deletion_timestamp)

    @property
    def has_owner(self) -> bool:
        """Whether another object made the pod, such as a Job. In that case no person reads warnings about the pod."""
        owners = self.metadata.owner_references_json if self.metadata else msgspec.Raw()
        return has_entries(owners)

    @property
    def owners(self) -> list[Owner]:
        """The objects that made the pod."""
        owners = self.metadata.owner_references_json if self.metadata else msgspec.Raw()
        return _decode(owners, _OWNERS, "ownerReferences") or []

    @property
    def controller(self) -> Owner | None:
        """The object that made the pod and keeps the number of such pods."""
        return next((owner for owner in self.owners if owner.controller), None)

    def is_owned_by(self, kind: str) -> bool:
        """Returns whether an object of a kind, such as ``DaemonSet``, made the pod."""
        return any(owner.kind == kind for owner in self.owners)

    @property
    def placed(self) -> PodCondition | None:
        """The condition ``gpu.topology/Placed``, by which the planner says how the placement goes."""
        return self.status.conditions.get(names.PLACED_CONDITION) if self.status else None

    @property
    def scheduled(self) -> PodCondition | None:
        """The condition ``PodScheduled``, in which the scheduler says whether the pod has a node."""
        return self.status.conditions.get(names.SCHEDULED_CONDITION) if self.status else None

    @property
    def running_since(self) -> datetime | None:
        """The time when the kubelet took the pod on, by the clock of its node; ``None`` while the pod does not run."""
        status = self.status
        return parse_timestamp(status.start_time) if status and status.phase == "Running" else None

    @property
    def has_ended(self) -> bool:
        """Whether the pod has run to its end, so that it holds no resources any more."""
        return self.status is not None and self.status.phase in ("Succeeded", "Failed")

    @property
    def exists(self) -> bool:
        """Whether the pod shows that the API server has stored it: it has a uid, a node or a phase."""
        has_phase = self.status is not None and bool(self.status.phase)
        has_node = self.spec is not None and bool(self.spec.node_name)
        return bool(self.metadata and self.metadata.uid) or has_node or has_phase

    @property
    def has_claims(self) -> bool:
        """Whether the pod names resource claims, or a scheduler has served its extended resources by one."""
        return (self.spec is not None and is_present(self.spec.resource_claims_json)) or self.has_extended_claim

    @property
    def has_extended_claim(self) -> bool:
        """Whether a scheduler has served extended resources of the pod by a resource claim."""
        return self.status is not None and is_present(self.status.extended_resource_claim_json)

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations, empty if there are none."""
        return (self.metadata.annotations if self.metadata else None) or {}

    @property
    def labels(self) -> dict[str, str]:
        """The labels, empty if there are none."""
        return (self.metadata.labels if self.metadata else None) or {}

    @property
    def display_name(self) -> str:
        """The name, or the beginning of the name that the API server gives a generated pod after admission.

        The API server checks names after admission, too, so this one may be any text. It is escaped, and bounded.
        """
        metadata = self.metadata or Metadata()
        return (
            fitted(metadata.name, NAME_LIMIT)
            if metadata.name
            else f"{fitted(metadata.generate_name or '', NAME_LIMIT)}*"
        )


class Namespace(msgspec.Struct, frozen=True):
    """A namespace, with the labels and annotations that an administrator gave it."""

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    known: bool = True
    """Whether the lookup of the namespace succeeded. Nothing can be said about pods of an unknown namespace."""

    def allows(self, permission: str) -> bool:
        """Returns whether the permission label ``permission`` is set."""
        return self.labels.get(permission) == "true"

    @property
    def injection_enabled(self) -> bool:
        """Whether the namespace has opted in."""
        return self.labels.get(names.INJECTION) == "enabled"


def decode_stored_pod(document: Document) -> Pod:
    """Returns a pod as the API server stores it. Its status may be nested deeper than a decoder goes.

    Args:
        document: The pod as JSON. The pod keeps it alive, because fields that are decoded later stay in it.

    Raises:
        msgspec.DecodeError: a field has another type than in a pod.
    """
    return decode_answer(_POD, document)


def is_present(raw: msgspec.Raw) -> bool:
    """Returns whether a field that stayed JSON is present and not ``null``."""
    return bytes(raw) not in _ABSENT


def has_entries(raw: msgspec.Raw) -> bool:
    """Returns whether a list that stayed JSON is present and not empty."""
    return is_present(raw) and bytes(raw) != b"[]"


def may_contain(raw: msgspec.Raw, needles: tuple[bytes, ...]) -> bool:
    """Returns whether one of ``needles`` may occur in a field that stayed JSON.

    Without escapes, the bytes of the field are its text.
    """
    text = bytes(raw)
    if b"\\" in text:
        return True
    for needle in needles:  # noqa: SIM110 - any() with a generator costs as much as the search
        if needle in text:
            return True
    return False


def may_spell(fields: tuple[msgspec.Raw, ...], *needles: bytes) -> bool:
    """Returns whether one of some words may occur in fields that stayed JSON; false positives are possible.

    The words have only letters and underscores, which JSON can escape only by the number of the character.
    """
    text = b"".join(fields)
    if b"\\u" in text:
        return True
    for needle in needles:  # noqa: SIM110 - any() with a generator costs as much as the search
        if needle in text:
            return True
    return False


def annotation_reference(key: str) -> Reference:
    """Returns the reference to an annotation as the source of a value."""
    return Reference(annotation_path(key))


def annotation_path(key: str) -> str:
    """Returns the downward-API path of an annotation."""
    return f"metadata.annotations['{key}']"


def _decode(raw: msgspec.Raw, decoder: msgspec.json.Decoder[_T], place: str) -> _T | None:
    if not is_present(raw):
        return None
    try:
        return decode(decoder, raw)
    except msgspec.DecodeError as error:
        raise MalformedPod(f"{fitted(place)}: {shape_problem(error)}") from None


_ENV = msgspec.json.Decoder(list[EnvVar])
_MOUNTS = msgspec.json.Decoder(list[VolumeMount])
_INIT_CONTAINERS = msgspec.json.Decoder(list[InitContainer])
_APART = msgspec.json.Decoder(list[msgspec.Raw])
_DOCUMENT = msgspec.json.Decoder(dict[str, Any])
_CLAIM_REFERENCES = msgspec.json.Decoder(list[ClaimReference])
_POD_CLAIMS = msgspec.json.Decoder(list[PodClaim])
_CLAIM_STATUSES = msgspec.json.Decoder(list[PodClaimStatus])
_EXTENDED_CLAIM = msgspec.json.Decoder(ExtendedClaim)
_OWNERS = msgspec.json.Decoder(list[Owner])
_SCHEDULING_GROUP = msgspec.json.Decoder(SchedulingGroup)
_WORKLOAD_REF = msgspec.json.Decoder(WorkloadReference)
_AMOUNTS = msgspec.json.Decoder(dict[str, Quantity])
_RESOURCES = msgspec.json.Decoder(Resources)
_CONDITIONS = msgspec.json.Decoder(list[PodCondition])
_CONTAINER_STATUSES = msgspec.json.Decoder(list[ContainerStatus])
_GATES = msgspec.json.Decoder(list[_Gate])
_SECURITY = msgspec.json.Decoder(_SecurityContext)
_WORDS = msgspec.json.Decoder(list[str])
_PROBE = msgspec.json.Decoder(_Handler)
_LIFECYCLE = msgspec.json.Decoder(_Lifecycle)
_VOLUMES = msgspec.json.Decoder(list[Volume])
_AFFINITY = msgspec.json.Decoder(Affinity)
_POD = msgspec.json.Decoder(Pod)

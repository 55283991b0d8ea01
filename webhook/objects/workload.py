"""The objects that make the pods of a group or name their number, as far as they say what pods will come.

Sources: k8s.io/api apps/v1, and scheduling v1alpha1 (1.35), v1alpha2 (1.36), v1alpha3 and v1beta1 (1.37);
scheduler-plugins.sigs.k8s.io/docs/plugins/coscheduling; volcano.sh/apis pkg/apis/scheduling/v1beta1;
sigs.k8s.io/lws api/leaderworkerset/v1 and pkg/controllers/pod_controller.go.
"""

import enum
from typing import NamedTuple

import msgspec

from webhook.objects.pod import Fields, Owner
from webhook.words import names
from webhook.words.nesting import Document, decode_answer

LONGEST_NAME = 253
"""The most characters of a name: k8s.io/apimachinery pkg/util/validation, DNS1123SubdomainMaxLength. Users write names
of any length into owner references and annotations."""
LONGEST_TEMPLATE = 32 * 1024
"""The most characters of a template of pods that are kept. Nothing is known of a longer one."""


class WorkloadKind(enum.StrEnum):
    """A kind of such objects."""

    STATEFUL_SET = "StatefulSet"
    LEADER_WORKER_SET = "LeaderWorkerSet"
    POD_GROUP = "PodGroup"
    """Of Kubernetes itself, from 1.36 on."""
    WORKLOAD = "Workload"
    """Of Kubernetes 1.35, which has the pod groups of a workload in one object."""
    COSCHEDULING = "PodGroup of scheduler-plugins"
    VOLCANO = "PodGroup of Volcano"


class WorkloadRef(NamedTuple):
    """The name of one object. It is always of the namespace of the pod."""

    kind: WorkloadKind
    namespace: str
    name: str
    uid: str = ""
    """The uid of the object. An object with another uid is not meant. Empty: the pod names it by its name alone."""
    revision: str = ""
    """The revision of its templates that a pod names. A new one is a reason to read the object again."""
    part: str = ""
    """The pod group within a Workload."""
    replica: str = ""
    """The replica of that pod group, which is a group of its own."""

    @property
    def is_possible(self) -> bool:
        """Whether there can be such an object: no part is longer than a name."""
        return max(map(len, self)) <= LONGEST_NAME


class Workload(msgspec.Struct, frozen=True):
    """What an object says of its pods."""

    uid: str
    pods: int
    """The number of its pods. Of a LeaderWorkerSet, that of one group, the leader included."""
    is_ordered: bool
    """Whether its later pods are created only when the first is scheduled or ready."""
    template: bytes = b""
    """The template of the workers of a LeaderWorkerSet, as JSON; empty: none is known."""
    revision: str = ""
    """The revision of the LeaderWorkerSet of which a StatefulSet makes the leaders."""
    owner: Owner | None = None
    """The object that made this one."""


MISSING = Workload(uid="", pods=0, is_ordered=False)
"""A PodGroup that is not there. It may be created after its pods."""


class _Metadata(Fields):
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None


class _StatefulSetSpec(Fields):
    replicas: int | None = None
    pod_management_policy: str | None = None


class _StatefulSet(Fields):
    metadata: _Metadata
    spec: _StatefulSetSpec


class _LeaderWorkerTemplate(Fields):
    worker_template: msgspec.Raw = msgspec.Raw()
    size: int | None = None


class _LeaderWorkerSetSpec(Fields):
    leader_worker_template: _LeaderWorkerTemplate
    startup_policy: str | None = None


class _LeaderWorkerSet(Fields):
    metadata: _Metadata
    spec: _LeaderWorkerSetSpec


class _Gang(Fields):
    min_count: int | None = None


class _SchedulingPolicy(Fields):
    gang: _Gang | None = None


class _PodGroupSpec(Fields):
    min_member: int | None = None
    scheduling_policy: _SchedulingPolicy | None = None


class _PodGroup(Fields):
    metadata: _Metadata
    spec: _PodGroupSpec


class _GroupOfWorkload(Fields):
    name: str = ""
    policy: _SchedulingPolicy | None = None


class _WorkloadSpec(Fields):
    pod_groups: list[_GroupOfWorkload] | None = None


class _Workload(Fields):
    metadata: _Metadata
    spec: _WorkloadSpec


_POD_GROUP = msgspec.json.Decoder(_PodGroup)
_WORKLOAD = msgspec.json.Decoder(_Workload)
_STATEFUL_SET = msgspec.json.Decoder(_StatefulSet)
_LEADER_WORKER_SET = msgspec.json.Decoder(_LeaderWorkerSet)


def read_workload(ref: WorkloadRef, document: Document) -> Workload:
    """Reads an object of the API server.

    Args:
        ref: Its name.
        document: The object as JSON.

    Raises:
        msgspec.DecodeError: it is no such object.
    """
    match ref.kind:
        case WorkloadKind.STATEFUL_SET:
            return _stateful_set(decode_answer(_STATEFUL_SET, document))
        case WorkloadKind.LEADER_WORKER_SET:
            return _leader_worker_set(decode_answer(_LEADER_WORKER_SET, document))
        case WorkloadKind.WORKLOAD:
            found = decode_answer(_WORKLOAD, document)
            groups = {group.name: group.policy for group in found.spec.pod_groups or ()}
            return _group(found.metadata, _least(groups[ref.part])) if ref.part in groups else MISSING
        case _:
            group = decode_answer(_POD_GROUP, document)
            least = group.spec.min_member or _least(group.spec.scheduling_policy)
            return _group(group.metadata, least)


def _group(metadata: _Metadata, least: int) -> Workload:
    return Workload(uid=metadata.uid, pods=max(1, least), is_ordered=False)


def _least(policy: _SchedulingPolicy | None) -> int:
    """Returns the least number of pods that are scheduled together: 1 without the policy ``gang``."""
    return (policy.gang.min_count if policy and policy.gang else None) or 1


def _stateful_set(found: _StatefulSet) -> Workload:
    metadata, spec = found.metadata, found.spec
    return Workload(
        uid=metadata.uid,
        pods=1 if spec.replicas is None else spec.replicas,
        is_ordered=spec.pod_management_policy != "Parallel",
        revision=(metadata.labels or {}).get(names.LWS_REVISION, ""),
        owner=next((owner for owner in metadata.owner_references or () if owner.controller), None),
    )


def _leader_worker_set(found: _LeaderWorkerSet) -> Workload:
    """Returns what a LeaderWorkerSet says of one group.

    Its controller creates the workers when the leader is there; with ``LeaderReady`` when it is ready, and with
    exclusive placement when it has a node, because that decides the nodes of the workers.
    """
    metadata, template = found.metadata, found.spec.leader_worker_template
    text = bytes(template.worker_template)
    is_exclusive = bool((metadata.annotations or {}).get(names.LWS_EXCLUSIVE))
    return Workload(
        uid=metadata.uid,
        pods=1 if template.size is None else template.size,
        is_ordered=is_exclusive or found.spec.startup_policy == "LeaderReady",
        template=text if len(text) <= LONGEST_TEMPLATE else b"",
    )

"""PodGroups: how many pods of a group are scheduled together.

Sources: k8s.io/api scheduling v1alpha1 (1.35), v1alpha2 (1.36), v1alpha3 and v1beta1 (1.37);
scheduler-plugins.sigs.k8s.io/docs/plugins/coscheduling; volcano.sh/apis pkg/apis/scheduling/v1beta1.
"""

import enum
from typing import NamedTuple

import msgspec

from webhook.objects.pod import Fields
from webhook.words.nesting import Document, decode_answer

LONGEST_NAME = 253
"""The most characters of a name: k8s.io/apimachinery pkg/util/validation, DNS1123SubdomainMaxLength. Users write names
of any length into owner references and annotations."""


class WorkloadKind(enum.StrEnum):
    """A kind of such objects."""

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

    pods: int
    """The number of pods that are scheduled together."""


MISSING = Workload(pods=0)
"""A PodGroup that is not there. It may be created after its pods."""


class _Gang(Fields):
    min_count: int | None = None


class _SchedulingPolicy(Fields):
    gang: _Gang | None = None


class _PodGroupSpec(Fields):
    min_member: int | None = None
    scheduling_policy: _SchedulingPolicy | None = None


class _PodGroup(Fields):
    spec: _PodGroupSpec


class _GroupOfWorkload(Fields):
    name: str = ""
    policy: _SchedulingPolicy | None = None


class _WorkloadSpec(Fields):
    pod_groups: list[_GroupOfWorkload] | None = None


class _Workload(Fields):
    spec: _WorkloadSpec


_POD_GROUP = msgspec.json.Decoder(_PodGroup)
_WORKLOAD = msgspec.json.Decoder(_Workload)


def read_workload(ref: WorkloadRef, document: Document) -> Workload:
    """Reads an object of the API server.

    Args:
        ref: Its name.
        document: The object as JSON.

    Raises:
        msgspec.DecodeError: it is no such object.
    """
    if ref.kind is WorkloadKind.WORKLOAD:
        found = decode_answer(_WORKLOAD, document)
        groups = {group.name: group.policy for group in found.spec.pod_groups or ()}
        return Workload(max(1, _least(groups[ref.part]))) if ref.part in groups else MISSING
    spec = decode_answer(_POD_GROUP, document).spec
    return Workload(max(1, spec.min_member or _least(spec.scheduling_policy)))


def _least(policy: _SchedulingPolicy | None) -> int:
    """Returns the least number of pods that are scheduled together: 1 without the policy ``gang``."""
    return (policy.gang.min_count if policy and policy.gang else None) or 1

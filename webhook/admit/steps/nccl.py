"""NCCL's tuning variables. The user's own values stay.

What depends on the chosen GPUs is read from annotations that bind overwrites. Until then they hold NCCL's own defaults,
because a missing annotation would resolve to the empty string. Sources: NCCL src/graph/paths.cc, src/transport/nvls.cc.
"""

from collections.abc import Iterator

import msgspec

from webhook.admit.edits import Annotate, Finding
from webhook.admit.request import PodContainer
from webhook.admit.subject import Subject
from webhook.admit.variables import offer_annotation, offer_value
from webhook.model import names
from webhook.model.options import Nvls, P2pLevel
from webhook.model.pod import annotation_path

PURPOSE = "set NCCL up for the links between its GPUs"

_NVLS_VALUES = {Nvls.ON: "1", Nvls.OFF: "0"}

# How a pod shows that its job spans nodes: the rendezvous variables of torchrun and LeaderWorkerSet, and the labels that
# the operators of such jobs put on their pods.
_MULTINODE_VARIABLES = ("MASTER_ADDR", "PET_RDZV_ENDPOINT", "LWS_LEADER_ADDRESS")
_MULTINODE_LABELS = (
    "training.kubeflow.org/job-name",
    "leaderworkerset.sigs.k8s.io/name",
    "jobset.sigs.k8s.io/jobset-name",
    "ray.io/cluster",
)


class _Variable(msgspec.Struct, frozen=True):
    """An NCCL variable: the literal ``value``, or the annotation ``key``, which holds ``value`` until bind."""

    name: str
    value: str
    key: str = ""


_P2P_LEVEL = _Variable(names.ENV_NCCL_P2P_LEVEL, "PXB", names.NCCL_P2P_LEVEL)
_NVLS = _Variable(names.ENV_NCCL_NVLS_ENABLE, "2", names.NCCL_NVLS)


def plan(subject: Subject) -> Iterator[Finding]:
    """Variables for each GPU container, then the annotations that some container refers to."""
    wanted = list(_wanted(subject))
    for one in subject.gpu_containers:
        for variable in wanted:
            if variable.key:
                yield from offer_annotation(one, variable.name, variable.key)
            else:
                yield from offer_value(one, variable.name, variable.value)
    for variable in wanted:
        if variable.key and any(_takes(one, variable) for one in subject.gpu_containers):
            yield Annotate(variable.key, variable.value)


def _wanted(subject: Subject) -> Iterator[_Variable]:
    policy, nvls = subject.policy, subject.options.nvls
    level = _level(subject)
    if level is P2pLevel.AUTO:
        yield _P2P_LEVEL
    else:
        yield _Variable(names.ENV_NCCL_P2P_LEVEL, level)
    yield _NVLS if nvls is Nvls.AUTO else _Variable(names.ENV_NCCL_NVLS_ENABLE, _NVLS_VALUES[nvls])
    for name, value in policy.fixed_nccl:
        yield _Variable(name, value)
    for name, value in policy.bound_nccl:
        yield _Variable(name, value, names.NCCL_ENV_PREFIX + name)
    if policy.nccl.multinode and _spans_nodes(subject):
        for name, value in policy.nccl.multinode.items():
            yield _Variable(name, value)


def _level(subject: Subject) -> P2pLevel:
    """The level that was asked for.

    The option and the output share one annotation: where a container refers to it, an earlier admission has replaced
    ``auto`` by its default.
    """
    if any(_refers(one, _P2P_LEVEL) for one in subject.gpu_containers):
        return P2pLevel.AUTO
    return subject.options.nccl_p2p_level


def _takes(one: PodContainer, variable: _Variable) -> bool:
    return variable.name not in one.env or _refers(one, variable)


def _refers(one: PodContainer, variable: _Variable) -> bool:
    own = one.env.get(variable.name)
    return own is not None and own.reads(annotation_path(variable.key))


def _spans_nodes(subject: Subject) -> bool:
    if any(label in subject.pod.labels for label in _MULTINODE_LABELS):
        return True
    return any(name in one.env for one in subject.gpu_containers for name in _MULTINODE_VARIABLES)

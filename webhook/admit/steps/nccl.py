"""NCCL's tuning variables. The user's own values stay.

What depends on the chosen GPUs is read from annotations that bind overwrites. Until then they hold NCCL's own defaults,
because a missing annotation would resolve to the empty string. Sources: NCCL src/graph/paths.cc, src/transport/nvls.cc.
"""

import msgspec

from webhook.admit.pod_patch import PodPatch
from webhook.admit.subject import Subject
from webhook.admit.variables import offer_reference, offer_value
from webhook.model import names
from webhook.model.choices import Nvls, P2pLevel
from webhook.model.pod import annotation_path

PURPOSE = "set NCCL up for the links between its GPUs"

_NVLS_VALUES = {Nvls.ON: "1", Nvls.OFF: "0"}


class _Variable(msgspec.Struct, frozen=True):
    """An NCCL variable: the literal ``value``, or the annotation ``key``, which holds ``value`` until bind."""

    name: str
    value: str
    key: str = ""
    field_path: str = ""


def _bound(name: str, value: str, key: str) -> _Variable:
    return _Variable(name, value, key, annotation_path(key))


_P2P_LEVEL = _bound(names.ENV_NCCL_P2P_LEVEL, "PXB", names.NCCL_P2P_LEVEL)
_NVLS = _bound(names.ENV_NCCL_NVLS_ENABLE, "2", names.NCCL_NVLS)


def plan(subject: Subject, patch: PodPatch) -> None:
    """Variables for each GPU container, and the annotations that some container refers to."""
    for variable in _wanted(subject):
        if variable.key:
            _offer_bound(subject, patch, variable)
        else:
            for one in subject.gpu_containers:
                offer_value(patch, one, variable.name, variable.value)


def _offer_bound(subject: Subject, patch: PodPatch, variable: _Variable) -> None:
    referred = False
    for one in subject.gpu_containers:
        own = one.env.get(variable.name)
        offer_reference(patch, one, variable.name, variable.field_path)
        referred = referred or own is None or own.reads(variable.field_path)
    if referred:
        patch.annotate(variable.key, variable.value)


def _wanted(subject: Subject) -> list[_Variable]:
    policy, nvls = subject.policy, subject.options.nvls
    level = _level(subject)
    wanted = [
        _P2P_LEVEL if level is P2pLevel.AUTO else _Variable(names.ENV_NCCL_P2P_LEVEL, level),
        _NVLS if nvls is Nvls.AUTO else _Variable(names.ENV_NCCL_NVLS_ENABLE, _NVLS_VALUES[nvls]),
    ]
    wanted += [_Variable(name, value) for name, value in policy.fixed_nccl]
    wanted += [_bound(name, value, names.NCCL_ENV_PREFIX + name) for name, value in policy.bound_nccl]
    if policy.nccl.multinode and _spans_nodes(subject):
        wanted += [_Variable(name, value) for name, value in policy.nccl.multinode.items()]
    return wanted


def _level(subject: Subject) -> P2pLevel:
    """The level that was asked for.

    The option and the output share one annotation: where a container refers to it, an earlier admission has replaced
    ``auto`` by its default.
    """
    for one in subject.gpu_containers:
        own = one.env.get(names.ENV_NCCL_P2P_LEVEL)
        if own is not None and own.reads(_P2P_LEVEL.field_path):
            return P2pLevel.AUTO
    return subject.options.nccl_p2p_level


def _spans_nodes(subject: Subject) -> bool:
    if not names.MULTINODE_LABELS.isdisjoint(subject.pod.labels):
        return True
    return any(name in one.env for one in subject.gpu_containers for name in names.MULTINODE_VARIABLES)

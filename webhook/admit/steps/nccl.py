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
from webhook.model.pod import annotation_reference
from webhook.resolve.nccl import NVLS_DEFAULT, P2P_DEFAULT

PURPOSE = "set NCCL up for the links between its GPUs"

_NVLS_VALUES = {Nvls.ON: "1", Nvls.OFF: "0"}


class NcclVariable(msgspec.Struct, frozen=True):
    """An NCCL variable: the literal ``value``, or the annotation ``key``, which holds ``value`` until bind."""

    name: str
    value: str
    key: str = ""


_P2P_LEVEL = NcclVariable(names.ENV_NCCL_P2P_LEVEL, P2P_DEFAULT, names.NCCL_P2P_LEVEL)
_NVLS = NcclVariable(names.ENV_NCCL_NVLS_ENABLE, NVLS_DEFAULT, names.NCCL_NVLS)


def plan(subject: Subject, patch: PodPatch) -> None:
    """Variables for each GPU container, and the annotations that some container refers to."""
    for variable in wanted_variables(subject):
        if variable.key:
            _offer_bound(subject, patch, variable)
        else:
            for one in subject.gpu_containers:
                offer_value(patch, one, variable.name, variable.value)


def _offer_bound(subject: Subject, patch: PodPatch, variable: NcclVariable) -> None:
    sources = subject.sources(variable.key, variable.name)
    annotation = annotation_reference(variable.key)
    referred = False
    for one in subject.gpu_containers:
        own = one.env.get(variable.name)
        offer_reference(patch, one, variable.name, sources)
        referred = referred or (sources[0] == annotation if own is None else own.reads(annotation))
    if referred:
        patch.annotate(variable.key, subject.allocated.get(variable.key, variable.value))


def wanted_variables(subject: Subject) -> list[NcclVariable]:
    """The variables that the pod gets where its containers do not set them."""
    policy, nvls = subject.policy, subject.options.nvls
    level = _level(subject)
    wanted = [
        _P2P_LEVEL if level is P2pLevel.AUTO else NcclVariable(names.ENV_NCCL_P2P_LEVEL, level),
        _NVLS if nvls is Nvls.AUTO else NcclVariable(names.ENV_NCCL_NVLS_ENABLE, _NVLS_VALUES[nvls]),
    ]
    wanted += [NcclVariable(name, value) for name, value in policy.fixed_nccl]
    wanted += [NcclVariable(name, value, names.NCCL_ENV_PREFIX + name) for name, value in policy.bound_nccl]
    if policy.nccl.multinode and _spans_nodes(subject):
        wanted += [NcclVariable(name, value) for name, value in policy.nccl.multinode.items()]
    return wanted


def _level(subject: Subject) -> P2pLevel:
    """The level that was asked for.

    The option and the output share one annotation: where a variable takes its value from it, it is the output, which
    an earlier admission, or a user, has put into the place of the option.
    """
    if subject.options.nccl_p2p_level is P2pLevel.AUTO:
        return P2pLevel.AUTO
    annotation = annotation_reference(names.NCCL_P2P_LEVEL)
    for one in subject.containers:
        for variable in one.env.values():
            if variable.reads(annotation):
                return P2pLevel.AUTO
    return subject.options.nccl_p2p_level


def _spans_nodes(subject: Subject) -> bool:
    if not names.MULTINODE_LABELS.isdisjoint(subject.pod.labels):
        return True
    return any(name in one.env for one in subject.gpu_containers for name in names.MULTINODE_VARIABLES)

"""NCCL's tuning variables. The user's own values stay.

Variables that depend on the chosen GPUs are read from annotations that bind overwrites. Until then the annotations
hold values that leave NCCL's own defaults in force, because a missing annotation would resolve to the empty string.
Sources: docs/nccl.md.
"""

import msgspec

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.admit.variables import offer_reference, offer_value
from webhook.decisions.resolve.fabric import spans_nodes
from webhook.decisions.resolve.nccl import NVLS_OFF, P2P_DEFAULT, nvls_until_bind, splits_nvls
from webhook.objects.pod import annotation_reference
from webhook.words import names
from webhook.words.catalogue.variables import NVLS_BETWEEN_PODS, OWN_NVLS_BETWEEN_PODS
from webhook.words.choices import Nvls, P2pLevel
from webhook.words.outcome import Reason, Refused

PURPOSE = "set NCCL up for the links between its GPUs"

_NVLS_VALUES = {Nvls.ON: "1", Nvls.OFF: NVLS_OFF}


class NcclVariable(msgspec.Struct, frozen=True):
    """An NCCL variable: the literal ``value``, or the annotation ``key``, which holds ``value`` until bind."""

    name: str
    value: str
    key: str = ""


_P2P_LEVEL = NcclVariable(names.ENV_NCCL_P2P_LEVEL, P2P_DEFAULT, names.NCCL_P2P_LEVEL)


def plan(subject: Subject, patch: PodPatch) -> None:
    """Sets variables in each GPU container, and the annotations that a container refers to.

    Raises:
        Refused: the pod asks for NVLink SHARP where it cannot be set up.
    """
    _judge_nvls(subject, patch)
    for variable in wanted_variables(subject):
        if variable.key:
            _offer_bound(subject, patch, variable)
        else:
            for container in subject.gpu_containers:
                offer_value(patch, container, variable.name, variable.value)


def _judge_nvls(subject: Subject, patch: PodPatch) -> None:
    """Refuses NVLink SHARP between pods without one network namespace, or warns of a container's own value for it."""
    if not splits_nvls(subject.profile, host_network=subject.host.network):
        return
    if subject.options.nvls is Nvls.ON:
        raise Refused(Reason.CONTRADICTS_PROFILE, NVLS_BETWEEN_PODS.say())
    for container in subject.gpu_containers:
        own = container.env.get(names.ENV_NCCL_NVLS_ENABLE)
        if own is not None and own.value_from is None and own.value != NVLS_OFF:
            patch.warn(OWN_NVLS_BETWEEN_PODS.say(container=container.name, variable=own.name, value=NVLS_OFF))


def _offer_bound(subject: Subject, patch: PodPatch, variable: NcclVariable) -> None:
    sources = subject.sources(variable.key, variable.name)
    annotation = annotation_reference(variable.key)
    referred = False
    for container in subject.gpu_containers:
        own = container.env.get(variable.name)
        offer_reference(patch, container, variable.name, sources)
        referred = referred or (sources[0] == annotation if own is None else own.reads(annotation))
    if referred:
        patch.annotate(variable.key, subject.allocated.get(variable.key, variable.value))


def wanted_variables(subject: Subject) -> list[NcclVariable]:
    """Returns the variables that the pod gets where its containers do not set them."""
    policy, nvls = subject.policy, subject.options.nvls
    level = _level(subject)
    wanted = [
        _P2P_LEVEL if level is P2pLevel.AUTO else NcclVariable(names.ENV_NCCL_P2P_LEVEL, level),
        _nvls_until_bind(subject)
        if nvls is Nvls.AUTO
        else NcclVariable(names.ENV_NCCL_NVLS_ENABLE, _NVLS_VALUES[nvls]),
    ]
    wanted += [NcclVariable(name, value) for name, value in policy.fixed_nccl]
    wanted += [NcclVariable(name, value, names.NCCL_ENV_PREFIX + name) for name, value in policy.bound_nccl]
    if policy.nccl.multinode and _spans_nodes(subject):
        wanted += [NcclVariable(name, value) for name, value in policy.nccl.multinode.items()]
    return wanted


def _nvls_until_bind(subject: Subject) -> NcclVariable:
    value = nvls_until_bind(subject.profile, host_network=subject.host.network)
    return NcclVariable(names.ENV_NCCL_NVLS_ENABLE, value, names.NCCL_NVLS)


def _level(subject: Subject) -> P2pLevel:
    """Returns the level of the option ``nccl-p2p-level``.

    The option and the output share one annotation. Where a variable takes its value from it, it is the output, which
    an earlier admission or a user has put into the place of the option.
    """
    if subject.options.nccl_p2p_level is P2pLevel.AUTO:
        return P2pLevel.AUTO
    annotation = annotation_reference(names.NCCL_P2P_LEVEL)
    for container in subject.containers:
        for variable in container.env.values():
            if variable.reads(annotation):
                return P2pLevel.AUTO
    return subject.options.nccl_p2p_level


def _spans_nodes(subject: Subject) -> bool:
    return spans_nodes(subject.pod.labels, {name for container in subject.gpu_containers for name in container.env})

"""The injection steps, one module each.

``plan(subject, patch)`` reads the subject and adds its changes to the patch; ``PURPOSE`` finishes the sentence "the
webhook would ...". The order is that of the entries in the pod, and is documented in docs/injection.md.
"""

from collections.abc import Callable

import msgspec

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.steps import (
    claims,
    colocation,
    compatibility,
    disable_control,
    environment,
    host_namespaces,
    isolation,
    mark,
    nccl,
    node_identity,
    placement,
    remap,
    runtime_class,
    scheduler_policy,
    shared_memory,
    visibility,
    whole_cards,
)
from webhook.decisions.admit.subject import Subject


class Step(msgspec.Struct, frozen=True):
    """One injection step."""

    name: str
    purpose: str
    plan: Callable[[Subject, PodPatch], None]


STEPS = tuple(
    Step(module.__name__.rpartition(".")[2].replace("_", "-"), module.PURPOSE, module.plan)
    for module in (
        whole_cards,
        disable_control,
        scheduler_policy,
        visibility,
        claims,
        host_namespaces,
        isolation,
        node_identity,
        shared_memory,
        nccl,
        remap,
        colocation,
        environment,
        runtime_class,
        placement,
        compatibility,
        mark,
    )
)

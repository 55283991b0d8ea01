"""``CUDA_DISABLE_CONTROL=true`` on every container, so that HAMi does not preload its interception library.

HAMi's device plugin reads the literal value from the container that it believes it serves. On several versions it
really serves another container than that (the first one, or an init container), so every container needs the value.
The plugin does not see ``valueFrom`` and ``envFrom``. Source: HAMi
pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go, Allocate.
"""

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.request.settings import disables_control
from webhook.words import names
from webhook.words.catalogue.cards import CONTROL_NOT_DISABLED, SLICE_LOSES_LIMITS, SLICE_WITH_PEERS
from webhook.words.outcome import Reason, Refused

PURPOSE = "switch HAMi's CUDA interception off"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Adds the variable to every container but those that keep their slice; nothing for GPUs by claims alone."""
    if not subject.resource:
        return
    _refuse_mixed_cards(subject)
    for container in subject.containers:
        if container.is_left_out:
            continue
        if names.ENV_DISABLE_CONTROL not in container.env:
            patch.add_variable(container, names.ENV_DISABLE_CONTROL, "true")
        elif not disables_control(container.entries):
            raise Refused(Reason.CONTRADICTS_PROFILE, CONTROL_NOT_DISABLED.say(container=container.name))


def _refuse_mixed_cards(subject: Subject) -> None:
    slices = [container.name for container in subject.left_out if container.request and not container.request.is_whole]
    if not slices:
        return
    if subject.profile.shares_gpus:
        message = SLICE_WITH_PEERS.say(container=slices[0], profile=subject.profile)
    elif not subject.cluster.tells_containers_apart:
        message = SLICE_LOSES_LIMITS.say(container=slices[0], hami=subject.cluster.hami or "of unknown version")
    else:
        return
    raise Refused(Reason.MIXED_CARDS, message)

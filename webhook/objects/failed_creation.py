"""Events of reason ``FailedCreate``: a controller could not create a pod, because the API server refused it.

The messages are those of kubernetes 1.28 to 1.37: a webhook that refuses (apiserver pkg/admission/plugin/webhook/errors
statuserror.go), a webhook that gives no answer (apiserver pkg/util/webhook/error.go), a quota (plugin resourcequota),
and a RuntimeClass that does not exist (plugin/pkg/admission/runtimeclass/admission.go).
"""

import enum
import re
from typing import NamedTuple

_REFUSED = re.compile(r'admission webhook "([^"]{1,253})" denied the request:? ?(.*)', re.DOTALL)
_NO_ANSWER = re.compile(r'failed calling webhook "([^"]{1,253})":? ?(.*)', re.DOTALL)
_QUOTA = re.compile(r"exceeded quota: (.*)", re.DOTALL)
_RUNTIME_CLASS = re.compile(r'RuntimeClass "([a-z0-9.-]{0,253}nvidia[a-z0-9.-]{0,253})" not found')
"""Of NVIDIA's classes alone: nvidia, nvidia-cdi, nvidia-legacy. Others have nothing to do with GPUs."""
_WEBHOOKS = ("gpu.topology", "hami.io")
"""The endings of the names of webhooks that are judged: ours and HAMi's."""
_CARDS = ("nvidia.com/", "volcano.sh/vgpu", "koordinator.sh/gpu")
"""The beginnings of resources that quotas of GPUs limit."""


class Cause(enum.StrEnum):
    """The cause for which a pod could not be created."""

    REFUSED = "refused"
    NO_ANSWER = "no answer"
    QUOTA = "quota"
    RUNTIME_CLASS = "runtime class"


class FailedCreation(NamedTuple):
    """The refusal of a pod."""

    cause: Cause
    webhook: str
    """The name of the webhook; empty for a quota and for a RuntimeClass."""
    said: str
    """What the webhook, the API server or the quota said; the name of the RuntimeClass."""


def failed_creation(message: str) -> FailedCreation | None:
    """Returns the cause that the message of an Event names; None if it is none that concerns GPUs."""
    for cause, pattern in ((Cause.REFUSED, _REFUSED), (Cause.NO_ANSWER, _NO_ANSWER)):
        found = pattern.search(message)
        if found and found[1].endswith(_WEBHOOKS):
            return FailedCreation(cause, found[1], found[2].strip())
    quota = _QUOTA.search(message)
    if quota and any(card in quota[1] for card in _CARDS):
        return FailedCreation(Cause.QUOTA, "", quota[1].strip())
    runtime_class = _RUNTIME_CLASS.search(message)
    if runtime_class:
        return FailedCreation(Cause.RUNTIME_CLASS, "", runtime_class[1])
    return None

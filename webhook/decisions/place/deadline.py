"""The deadline after which a waiting pod no longer waits for a planner that does not come."""

from datetime import datetime, timedelta

from webhook.decisions.options import Options, parse_option
from webhook.objects.pod import Metadata, Namespace, Pod
from webhook.words import names
from webhook.words.choices import OnViolation
from webhook.words.errors import FormatError
from webhook.words.timestamp import parse_timestamp

_OPTION = "on-violation"
_KEY = names.PREFIX + _OPTION


def is_overdue(pod: Pod, namespace: Namespace, defaults: Options, *, at: datetime, seconds: float) -> bool:
    """Returns whether a pod that only warns still waits for a node ``seconds`` after it was created.

    Args:
        pod: The pod, with its creationTimestamp.
        namespace: The namespace of the pod.
        defaults: The default options of the configuration.
        at: The present time, by the clock that also set the creationTimestamp.
        seconds: The time for which a pod waits for a planner.
    """
    if not pod.is_pending or _denies(pod, namespace, defaults):
        return False
    created = parse_timestamp((pod.metadata or Metadata()).creation_timestamp)
    return created is not None and at - created >= timedelta(seconds=seconds)


def _denies(pod: Pod, namespace: Namespace, defaults: Options) -> bool:
    """Returns whether the pod waits rather than run below its requirements.

    A pod that is not injected has none. Only this option is read, so that another option that was spoiled after
    admission keeps no pod waiting.
    """
    if names.INJECTED not in pod.annotations:
        return False
    for annotations in (pod.annotations, namespace.annotations):
        text = annotations.get(_KEY)
        if text is not None:
            try:
                return parse_option(_OPTION, text, source=_KEY) is OnViolation.DENY
            except FormatError:
                continue
    return defaults.on_violation is OnViolation.DENY

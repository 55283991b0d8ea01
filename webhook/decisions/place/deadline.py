"""Whether a waiting pod has waited long enough for a planner that does not come."""

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
    """Whether the pod only warns, still waits for a node, and was created so many ``seconds`` before ``at``.

    Args:
        pod: With its creationTimestamp.
        namespace: Its namespace.
        defaults: Of the configuration.
        at: Now, by the clock that also set the creationTimestamp.
        seconds: For which it waits for a planner.
    """
    if not pod.is_pending or _denies(pod, namespace, defaults):
        return False
    created = parse_timestamp((pod.metadata or Metadata()).creation_timestamp)
    return created is not None and at - created >= timedelta(seconds=seconds)


def _denies(pod: Pod, namespace: Namespace, defaults: Options) -> bool:
    """Whether the pod rather waits than run below its requirements.

    Only this option is read: another one that was spoiled after admission keeps no pod waiting.
    """
    for annotations in (pod.annotations, namespace.annotations):
        text = annotations.get(_KEY)
        if text is not None:
            try:
                return parse_option(_OPTION, text, source=_KEY) is OnViolation.DENY
            except FormatError:
                continue
    return defaults.on_violation is OnViolation.DENY

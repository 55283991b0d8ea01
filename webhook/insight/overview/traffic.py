"""What the cards of a pod moved in the last minutes."""

from collections.abc import Sequence
from datetime import datetime

from webhook.hardware.traffic.judgement import PodTraffic, is_recent, pod_traffic
from webhook.hardware.traffic.model import Traffic
from webhook.objects.pod import Pod


def moved(pod: Pod, uuids: Sequence[str], traffic: Traffic | None, at: datetime | None) -> PodTraffic | None:
    """None where no agent tells it, or none has for a while.

    Args:
        pod: A pod with whole cards.
        uuids: Of its cards.
        traffic: Of its node.
        at: When the cluster was read.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    if traffic is None or at is None or not is_recent(traffic, at):
        return None
    return pod_traffic(traffic, uuids, pod.running_since)

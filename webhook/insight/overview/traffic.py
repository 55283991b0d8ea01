"""The traffic of the cards of a pod in the last minutes."""

from collections.abc import Sequence
from datetime import datetime

from webhook.hardware.traffic.judgement import PodTraffic, is_recent, pod_traffic
from webhook.hardware.traffic.model import Traffic
from webhook.objects.pod import Pod


def moved(pod: Pod, uuids: Sequence[str], traffic: Traffic | None, at: datetime | None) -> PodTraffic | None:
    """Returns the traffic of a pod; None where no agent reports it, or none has recently.

    Args:
        pod: A pod with whole cards.
        uuids: The UUIDs of its cards.
        traffic: The traffic of its node.
        at: The time at which the cluster was read.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    if traffic is None or at is None or not is_recent(traffic, at):
        return None
    return pod_traffic(traffic, uuids, pod.running_since)

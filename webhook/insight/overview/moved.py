"""What the cards of a pod moved in the last minutes."""

from collections.abc import Sequence
from datetime import datetime

from webhook.analyze.snapshot import KnownPod
from webhook.explain.standing import standing_of
from webhook.traffic.judgement import PodTraffic, is_recent, pod_traffic
from webhook.traffic.model import Traffic


def moved(known: KnownPod, uuids: Sequence[str], traffic: Traffic | None, at: datetime | None) -> PodTraffic | None:
    """None where no agent tells it, or none has for a while.

    Args:
        known: A pod with whole cards.
        uuids: Of its cards.
        traffic: Of its node.
        at: When the cluster was read.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    if traffic is None or at is None or not is_recent(traffic, at):
        return None
    return pod_traffic(traffic, uuids, standing_of(known.document).started)

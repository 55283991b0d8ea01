"""The traffic of the cards of a pod in the last minutes, and the share of what their NVLinks carry."""

from collections.abc import Sequence
from datetime import datetime

from webhook.hardware.topology.connections import nvlink_capacity
from webhook.hardware.topology.model import Gpu
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


def nvlink_use(found: PodTraffic, gpus: Sequence[Gpu]) -> float | None:
    """Returns the share of what the NVLinks of the cards of a pod carry, in both directions together, that it used.

    It is None where the traffic or the capacity of a card is not known, or no link of a card works. Copies in one
    direction may reach a little more than the capacity, which is reckoned as NCCL does.

    Args:
        found: The traffic of the pod.
        gpus: All of its cards.
    """
    capacities = [capacity for gpu in gpus if (capacity := nvlink_capacity(gpu)) is not None]
    if found.nvlink is None or not capacities or len(capacities) < len(gpus):
        return None
    return found.nvlink / (2 * sum(capacities) * 1e9 * found.seconds)

"""The mark of the holder of a card: a colour for each workload and two letters, so that colour is never alone."""

from zlib import crc32

from webhook.insight.overview.model import Pod

HUES = 10
"""Number of colours: classes ``h0`` to ``h9`` of the style sheet."""


def workload(pod: Pod) -> str:
    """Returns the name of the workload that made the pod; the name of the pod if there is none."""
    return pod.owner.rpartition(" ")[2] or pod.name


def hue(pod: Pod) -> str:
    """Returns the class of the colour of a workload: the same on all nodes, at all times."""
    return f"h{crc32(f'{pod.namespace}/{workload(pod)}'.encode('utf-8', 'replace')) % HUES}"


def mark(pod: Pod) -> str:
    """Returns two letters of the workload: the first ones of its first two words, or of its only word."""
    parts = [part for part in workload(pod).replace(".", "-").split("-") if part]
    return "".join(part[0] for part in parts[:2]) if len(parts) > 1 else "".join(parts)[:2]

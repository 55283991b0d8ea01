"""How the holder of a card is marked: a colour for each workload, and two letters beside it, never colour alone."""

from zlib import crc32

from webhook.insight.overview.model import Pod

HUES = 10
"""Classes ``h0`` to ``h9`` of the style sheet."""


def workload(pod: Pod) -> str:
    """What made the pod, without its kind; the pod itself if nothing did."""
    return pod.owner.rpartition(" ")[2] or pod.name


def hue(pod: Pod) -> str:
    """Class of the colour of its workload: the same on all nodes, at all times."""
    return f"h{crc32(f'{pod.namespace}/{workload(pod)}'.encode('utf-8', 'replace')) % HUES}"


def mark(pod: Pod) -> str:
    """Two letters of the workload: the first ones of its first words."""
    parts = [part for part in workload(pod).replace(".", "-").split("-") if part]
    return "".join(part[0] for part in parts[:2]) if len(parts) > 1 else "".join(parts)[:2]

"""The values of a pod for its row in the table, and for its entry among the pods that wait."""

from webhook.insight.explain.findings import Nvlink
from webhook.insight.overview.highlights import is_slower
from webhook.insight.overview.model import Pod
from webhook.insight.page.findings import codes_of
from webhook.insight.page.holders import workload
from webhook.insight.page.markup import RANKS, encoded, worst
from webhook.insight.page.words import Words

_ORDER = {Nvlink.NO: "0", Nvlink.UNKNOWN: "1", Nvlink.YES: "2", Nvlink.NOTHING_TO_JOIN: "3"}


def row(pod: Pod, _: Words) -> dict[str, object]:
    """Returns the values of the pod in the table."""
    rank = RANKS[worst(pod.findings)]
    speed = f"{pod.bandwidth:012.3f}" if pod.bandwidth is not None else ""
    columns = [
        *(pod.key, pod.owner, pod.node, f"{len(pod.cards) or pod.wanted or 0:06}"),
        *(_ORDER[pod.nvlink], pod.profile, pod.link, speed),
        *(pod.verified.value, f"{rank}{999999 - len(pod.findings):06}"),
    ]
    return {
        "pod": pod,
        "sort": f"{rank}{pod.key}",
        "columns": encoded(columns),
        "is_slower": is_slower(pod),
        "filter": _filter(pod),
    }


def waiting(pod: Pod, _: Words) -> dict[str, object]:
    """Returns the values of the pod among those that wait."""
    return {"pod": pod, "sort": f"{workload(pod)}/{pod.key}", "filter": _filter(pod)}


def _filter(pod: Pod) -> dict[str, str]:
    return {
        "namespaces": encoded([pod.namespace]),
        "codes": encoded(codes_of(pod.findings)),
        "search": f"{pod.key} {pod.owner} {pod.node}".lower(),
    }

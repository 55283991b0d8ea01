"""What a link of the page opens: all that is known of a pod or a node."""

from collections.abc import Iterator
from typing import NamedTuple

from webhook.analyze.pods import Reports
from webhook.analyze.snapshot import Snapshot
from webhook.model.errors import GpuTopologyError
from webhook.model.pod import MalformedPod
from webhook.overview.model import Overview, Pod
from webhook.page import document, nodes, pods
from webhook.page.explained import explained
from webhook.page.findings import listed
from webhook.page.tree import Element, el
from webhook.page.words import Words

MOST_IN_A_FILE = 300
"""Pods with findings that a file explains, and nodes of which it has all that is known."""


class Known(NamedTuple):
    """A cluster at one moment."""

    snapshot: Snapshot
    overview: Overview


def detail(known: Known, key: str, words: Words) -> Element | None:
    """What a link opens; None if there is nothing of that key.

    Args:
        known: The cluster.
        key: ``pods/NAMESPACE/NAME`` or ``nodes/NAME``.
        words: The texts.
    """
    kind, _, name = key.partition("/")
    if kind == "nodes":
        found = next((each for each in known.overview.nodes if each.name == name), None)
        return nodes.detail(found, words) if found else None
    pod = next((each for each in known.overview.pods if each.key == name), None) if kind == "pods" else None
    return _pod(Reports(known.snapshot), pod, words) if pod else None


def _pod(reports: Reports, pod: Pod, words: Words) -> Element:
    parts = [pods.facts(pod, words)]
    if pod.findings:
        parts.append(listed(pod.findings, words))
    try:
        report = reports.of(pod.namespace, pod.name)
    except (MalformedPod, GpuTopologyError) as problem:
        return el("div", *parts, el("p", str(problem), lang="en", class_="problem"))
    parts.append(explained(report, words) if report else el("p", words("explain.none")))
    return el("div", *parts)


def of_file(known: Known, words: Words) -> Iterator[Element]:
    """What the links of a file lead to: pods with findings and nodes, as many as a file should have."""
    reports = Reports(known.snapshot)
    wanted = [pod for pod in known.overview.pods if pod.findings or pod.is_waiting]
    for pod in wanted[:MOST_IN_A_FILE]:
        yield document.detail(f"pods/{pod.key}", pod.key, _pod(reports, pod, words))
    for node in known.overview.nodes[:MOST_IN_A_FILE]:
        yield document.detail(f"nodes/{node.name}", node.name, nodes.detail(node, words))

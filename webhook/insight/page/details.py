"""The details of a pod or a node, which a link of the page opens."""

from collections.abc import Iterator
from typing import NamedTuple

from markupsafe import Markup

from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze.pods import Reports
from webhook.insight.explain.findings import Finding, Report
from webhook.insight.overview.model import Overview, Pod
from webhook.insight.page import nodes
from webhook.insight.page.markup import render
from webhook.insight.page.words import Words
from webhook.objects.pod import MalformedPod
from webhook.words.errors import GpuTopologyError
from webhook.words.printable import printable

MOST_IN_A_FILE = 300
"""Pods that a file explains at most, and nodes of which it has the details at most."""


class Known(NamedTuple):
    """A cluster at one moment: its snapshot and the overview of it."""

    snapshot: Snapshot
    overview: Overview


class Detail(NamedTuple):
    """The details of one pod or node in a file."""

    key: str
    title: str
    markup: Markup


def detail(known: Known, key: str, words: Words) -> Markup | None:
    """Returns the details of a pod or a node as markup; None if there is nothing of that key.

    Args:
        known: The cluster.
        key: ``pods/NAMESPACE/NAME`` or ``nodes/NAME``, as the page shows the names.
        words: The texts.
    """
    kind, _, name = key.partition("/")
    if kind == "nodes":
        found = next((each for each in known.overview.nodes if printable(each.name) == name), None)
        return nodes.detail(found, words) if found else None
    if kind != "pods":
        return None
    pod = next((each for each in known.overview.pods if printable(each.key) == name), None)
    return _pod(Reports(known.snapshot), pod, words) if pod else None


def _pod(reports: Reports, pod: Pod, words: Words) -> Markup:
    report: Report | None = None
    problem = ""
    try:
        report = reports.of(pod.namespace, pod.name)
    except (MalformedPod, GpuTopologyError) as error:
        problem = str(error)
    findings = report.findings if report else []
    groups = report.groups if report else []
    holding = [(group.title, [each for each in group.findings if not each.fails]) for group in groups]
    explained = {each.code for each in findings}
    values = {
        "pod": pod,
        "others": [each for each in pod.findings if each.code not in explained],
        "problem": problem,
        "report": report,
        "failing": [each for each in findings if each.fails and report and not _decides(each, report)],
        "groups": [(title, found) for title, found in holding if found],
    }
    return render("pod", words, values)


def _decides(finding: Finding, report: Report) -> bool:
    """Returns whether a condition is the one that the verdict above the conditions already tells."""
    return (finding.code, finding.evidence) == (report.judgement.code, report.judgement.reason)


def of_file(known: Known, words: Words) -> Iterator[Detail]:
    """Yields the details for a file: pods that wait or have findings, and nodes, up to the limit for each."""
    reports = Reports(known.snapshot)
    wanted = [pod for pod in known.overview.pods if pod.findings or pod.is_waiting]
    for pod in wanted[:MOST_IN_A_FILE]:
        yield Detail(f"pods/{pod.key}", pod.key, _pod(reports, pod, words))
    for node in known.overview.nodes[:MOST_IN_A_FILE]:
        yield Detail(f"nodes/{node.name}", node.name, nodes.detail(node, words))

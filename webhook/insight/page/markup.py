"""The page as HTML: the empty page that a browser fills, its contents, details of a pod or a node, or one file."""

import base64
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from markupsafe import Markup

from webhook.cluster.snapshot.freshness import Standing
from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze.pods import Reports
from webhook.insight.drawings.node import environment, style
from webhook.insight.explain.findings import Finding, Nvlink, Report, Verdict
from webhook.insight.explain.start import Verified
from webhook.insight.overview.highlights import is_slower
from webhook.insight.overview.model import Level, Node, Overview, Pod
from webhook.insight.page import view
from webhook.objects.pod import MalformedPod
from webhook.words.errors import GpuTopologyError
from webhook.words.listing import counted, ranges
from webhook.words.printable import printable

ASSETS = {
    "page.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""The files of the page, with their types."""
_COMMON = "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    f"frame-ancestors 'none'; {_COMMON}"
)
"""Content-Security-Policy of the live page."""
MOST_SHOWN = 300
"""Pods, nodes and findings that the live page shows at most; the filter finds the others."""
MOST_IN_A_FILE = 300
"""Pods that a file explains at most, and nodes of which it has the details at most."""
_DASH = "\N{EN DASH}"
_SIGNS = {
    Level.ERROR: "✖",
    Level.WARNING: "▲",
    Level.INFO: "?",
    Level.HINT: "·",
    Nvlink.YES: "✓",
    Nvlink.NO: "✖",
    Nvlink.UNKNOWN: "?",
    Nvlink.NOTHING_TO_JOIN: _DASH,
    Verdict.HOLDS: "✓",
    Verdict.FAILS: "✖",
    Verdict.NOT_NEEDED: _DASH,
}
_NVLINK = {Nvlink.YES: "yes", Nvlink.NO: "no", Nvlink.UNKNOWN: "unknown", Nvlink.NOTHING_TO_JOIN: "nothing to join"}

_TEMPLATES = environment(__package__)
_TEMPLATES.filters |= {
    "anchor": view.anchor,
    "by_level": lambda findings: sorted(findings, key=lambda each: view.RANKS[each.level]),
    "colour": view.colour,
    "counted": counted,
    "is_slower": is_slower,
    "mark": view.mark,
    "ranges": ranges,
    "worst": view.worst,
}
_TEMPLATES.globals |= {
    "dash": _DASH,
    "healths": view.HEALTHS,
    "levels": view.LEVELS,
    "most_holders": view.MOST_HOLDERS,
    "nvlinks": view.NVLINKS,
    "nvlink_words": _NVLINK,
    "signs": _SIGNS,
    "states": view.STATES,
}


class Known(NamedTuple):
    """A cluster at one moment: its snapshot and the overview of it."""

    snapshot: Snapshot
    overview: Overview


class Detail(NamedTuple):
    """The details of one pod or node."""

    key: str
    """``pods/NAMESPACE/NAME`` or ``nodes/NAME``."""
    markup: Markup


@cache
def asset(name: str) -> bytes:
    """Returns a file of the page."""
    text = files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
    return (f"{style()}{text}" if name == "page.css" else text).encode()


def shell() -> str:
    """Returns the live page without contents. Nothing of the cluster is in it."""
    return _render("page.html", at="", policy="")


def contents(shown: view.View, standing: Standing) -> str:
    """Returns the contents of the live page.

    Args:
        shown: What the page shows.
        standing: Whether the cluster is followed.
    """
    return _render("overview.html", view=shown, overview=shown.overview, standing=standing)


def whole(known: Known) -> str:
    """Returns the page with all its contents as one file, which needs no server and has no script."""
    overview = known.overview
    css = asset("page.css").decode()
    digest = base64.b64encode(sha256(css.encode()).digest()).decode()
    return _render(
        "page.html",
        at=overview.at or "files",
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; {_COMMON}",
        style=Markup(css),  # noqa: S704 - our own file
        view=view.View(overview, view.slots(overview.pods, {})),
        overview=overview,
        standing=None,
        details=list(_of_file(known)),
    )


def detail(known: Known, key: str) -> Detail | None:
    """Returns the details of a pod or a node; None if there is nothing of that key.

    Args:
        known: The cluster.
        key: ``pods/NAMESPACE/NAME`` or ``nodes/NAME``, as the page shows the names.
    """
    pods = (pod for pod in known.overview.pods if printable(f"pods/{pod.key}") == key)
    if pod := next(pods, None):
        return _pod(Reports(known.snapshot), pod)
    nodes = (node for node in known.overview.nodes if printable(f"nodes/{node.name}") == key)
    return next(map(_node, nodes), None)


def _of_file(known: Known) -> Iterator[Detail]:
    reports = Reports(known.snapshot)
    wanted = [pod for pod in known.overview.pods if pod.findings or pod.is_waiting]
    yield from (_pod(reports, pod) for pod in wanted[:MOST_IN_A_FILE])
    yield from map(_node, known.overview.nodes[:MOST_IN_A_FILE])


def _node(node: Node) -> Detail:
    links = sorted(node.links, key=lambda link: not link.lost)
    return Detail(f"nodes/{node.name}", Markup(_render("node.html", node=node, links=links)))  # noqa: S704 - escaped


def _pod(reports: Reports, pod: Pod) -> Detail:
    report: Report | None = None
    problem = ""
    try:
        report = reports.of(pod.namespace, pod.name)
    except (MalformedPod, GpuTopologyError) as error:
        problem = str(error)
    findings = report.findings if report else ()
    explained = {each.code for each in findings}
    text = _render(
        "pod.html",
        pod=pod,
        others=[each for each in pod.findings if each.code not in explained],
        problem=problem,
        report=report,
        failing=[each for each in findings if each.fails and report and not _decides(each, report)],
        is_verified=pod.verified is not Verified.UNKNOWN,
    )
    return Detail(f"pods/{pod.key}", Markup(text))  # noqa: S704 - escaped there


def _decides(finding: Finding, report: Report) -> bool:
    """Returns whether a condition is the one that the verdict above the conditions already tells."""
    return (finding.code, finding.evidence) == (report.judgement.code, report.judgement.reason)


def _render(name: str, **values: object) -> str:
    return _TEMPLATES.get_template(name).render(values)

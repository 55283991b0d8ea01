"""The report on a pod: all conditions for NVLink between its GPUs in order, and a conclusion of one sentence."""

from collections.abc import Callable, Iterator

import msgspec

from webhook.hardware.topology.sets import LinkClass
from webhook.insight.explain.cards import cards
from webhook.insight.explain.causes import PREPARATION
from webhook.insight.explain.claims import claims
from webhook.insight.explain.evidence import Evidence
from webhook.insight.explain.examination import ExaminedPod, Peering, examine
from webhook.insight.explain.faults import faults
from webhook.insight.explain.findings import Finding, Group, Judgement, Reach, Report, Verdict
from webhook.insight.explain.links import ALLOCATION, LINKS, links
from webhook.insight.explain.measurements import measured
from webhook.insight.explain.nccl_paths import NCCL_LOG, nccl_log
from webhook.insight.explain.nvlink import judge
from webhook.insight.explain.opt_in import PREPARED, opting, refusal_of_new_pod
from webhook.insight.explain.peers import PEERS, peers
from webhook.insight.explain.placement import placement
from webhook.insight.explain.remedies import first_change
from webhook.insight.explain.reviews import REVIEWED
from webhook.insight.explain.start import START, start
from webhook.insight.explain.traffic import traffic
from webhook.insight.explain.variables import variables
from webhook.words.catalogue.peers import RANKS_NOT_KNOWN
from webhook.words.choices import Profile
from webhook.words.listing import listed

_Conditions = Callable[[ExaminedPod], Iterator[Finding]]

_GROUPS: tuple[tuple[str, _Conditions, bool], ...] = (
    ("Injection", opting, False),
    ("Resource claims", claims, False),
    ("Cards and HAMi's library", cards, True),
    ("Placement", placement, False),
    ("Start", start, False),
    ("Allocation and links", links, False),
    ("Variables", variables, True),
    ("Peers", peers, True),
    ("Traffic", traffic, False),
    ("NCCL's log", nccl_log, True),
    ("Measured bandwidth", measured, False),
    ("Faults of HAMi", faults, False),
)
"""For each group its title, its conditions, and whether they matter only where NVLink has GPUs to join."""
_LOG_SHOWS_ALL = "NCCL's log shows NVLink between all these GPUs"


def explain(evidence: Evidence) -> Report:
    """Returns the report on a pod.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    examined = examine(evidence)
    # Of a pod that cannot start nothing else matters.
    groups = tuple(sorted(_groups(examined), key=lambda group: not any(map(_keeps_from_start, group.findings))))
    findings = [finding for group in groups for finding in group.findings]
    reach = _reach(examined, findings)
    return Report(
        pod=examined.holder,
        node=evidence.node,
        reach=reach,
        conclusion=_conclusion(examined, reach, findings),
        judgement=_with_change(examined, judge(examined, reach, findings), findings),
        groups=groups,
    )


def _with_change(examined: ExaminedPod, judgement: Judgement, findings: list[Finding]) -> Judgement:
    """Return the judgement with its remedy as data."""
    deciding = (each for each in findings if (each.condition, each.code) == (judgement.condition, judgement.code))
    return msgspec.structs.replace(judgement, change=first_change(examined, next(deciding, None)))


def _groups(examined: ExaminedPod) -> Iterator[Group]:
    speaking = (opting, cards, links) if examined.requests.mig else (opting, claims, peers)
    if refusal_of_new_pod(examined):
        yield Group(_GROUPS[0][0], tuple(opting(examined)))
        return
    for title, conditions, for_links in _GROUPS:
        if not examined.gpu_containers and conditions not in speaking:
            continue
        found = tuple(conditions(examined))
        if examined.alone and for_links:
            found = tuple(map(_harmless, found))
        if found:
            yield Group(title, found)


def _keeps_from_start(finding: Finding) -> bool:
    return finding.condition == START and finding.stops


def _harmless(finding: Finding) -> Finding:
    """Returns a condition as not needed, for a pod without two GPUs to join."""
    if finding.verdict in (Verdict.HOLDS, Verdict.NOT_NEEDED) or finding.code == RANKS_NOT_KNOWN.code:
        return finding
    said = f"{finding.evidence}; that harms no link, because no container has two GPUs"
    return msgspec.structs.replace(finding, verdict=Verdict.NOT_NEEDED, evidence=said, remedy="", stops=False)


def _reach(examined: ExaminedPod, findings: list[Finding]) -> Reach:
    if examined.requests_problem or examined.unrecognized:
        return Reach.UNKNOWN
    if refusal_of_new_pod(examined):
        return Reach.NONE
    if examined.alone and examined.ranks is Peering.UNKNOWN:
        return Reach.UNKNOWN
    if examined.alone or not (examined.gpu_containers or examined.requests.mig or examined.claims or examined.servers):
        return Reach.NOTHING_TO_JOIN
    failing = [finding for finding in findings if finding.fails and finding.condition not in PREPARATION]
    if failing:
        return Reach.NONE if any(finding.stops for finding in failing) else Reach.SOME
    if any(finding.condition == NCCL_LOG and finding.verdict is Verdict.HOLDS for finding in findings):
        return Reach.ALL
    if examined.resolution is None or examined.resolution.doubt:
        return Reach.UNKNOWN
    if examined.resolution.worst.link is not LinkClass.SINGLE:
        return Reach.ALL
    return Reach.UNKNOWN if examined.profile is Profile.NODE_PEERS else Reach.NOTHING_TO_JOIN


def _conclusion(examined: ExaminedPod, reach: Reach, findings: list[Finding]) -> str:
    """Returns the conclusion, which says only what follows from the findings."""
    if refusal_of_new_pod(examined):
        return f"The webhook refuses this pod, so it is not created: {PREPARED}."
    failing = [finding for finding in findings if finding.fails and finding.condition not in PREPARATION]
    reasons = listed(dict.fromkeys(finding.condition for finding in failing))
    unprepared = "The webhook did not prepare this pod. " if not examined.injected else ""
    if reach is Reach.NOTHING_TO_JOIN:
        return "NVLink has nothing to join: nothing shows two GPUs here that work together."
    if reach is Reach.NONE:
        stopping = listed(dict.fromkeys(finding.condition for finding in failing if finding.stops))
        return f"{unprepared}NCCL uses no NVLink in this pod: {stopping}."
    if reach is Reach.SOME:
        if [finding.condition for finding in failing] == [LINKS]:
            return f"{unprepared}NVLink joins some of these GPUs only: {LINKS}."
        if [finding.condition for finding in failing] == [PEERS]:
            return f"{unprepared}NVLink does not reach the peers with which this pod seems to exchange memory: {PEERS}."
        return f"{unprepared}NVLink may be lost, or slower than it could be: {reasons}."
    if examined.requests_problem or examined.unrecognized:
        return "What the pod requests cannot be read."
    open_ones = (finding for finding in findings if finding.verdict is Verdict.UNKNOWN)
    doubts = listed(dict.fromkeys(finding.condition for finding in open_ones if finding.condition != REVIEWED))
    if examined.resolution is None or examined.resolution.doubt or reach is Reach.UNKNOWN:
        said = f"Nothing that is known stops NCCL from using NVLink; not known: {doubts or ALLOCATION}"
        return f"{unprepared}{said if reach is Reach.UNKNOWN else _LOG_SHOWS_ALL}."
    worst = examined.resolution.worst
    said = (
        f"{unprepared}Nothing here stops NCCL from using NVLink between all these GPUs "
        f"({worst.link}, {worst.bandwidth_text} GB/s per direction)"
    )
    return f"{said}; not known: {doubts}." if doubts else f"{said}."

"""The word for a pod: whether it really has NVLink, which condition decides, and what to do first.

What the links of its GPUs could carry is not what the pod gets: a condition may keep NCCL from using them, and the pod
may have other GPUs than it was given. So the word is ``yes`` only where every condition that decides holds and the
start was verified, where NCCL's log shows it, or where bytes over NVLink were counted or measured.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from webhook.insight.explain.causes import PREPARATION, is_certain, sureness
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, Judgement, Nvlink, Reach, Verdict
from webhook.insight.explain.measurements import MEASURED
from webhook.insight.explain.nccl_paths import NCCL_LOG
from webhook.insight.explain.opt_in import PREPARED
from webhook.insight.explain.start import START, Verified, verified
from webhook.insight.explain.traffic import used_nvlink
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.peers import EXCHANGE_WITHOUT_PEERS, RANKS_NOT_KNOWN
from webhook.words.catalogue.start import NEVER_VERIFIED, NOT_VERIFIED_YET
from webhook.words.listing import counted

_STOPS_THE_POD = frozenset({START, PREPARED})
"""Conditions without which there is no pod that runs: its start failed, or admission refuses it."""
_ABOUT_PEERS = frozenset({EXCHANGE_WITHOUT_PEERS.code, RANKS_NOT_KNOWN.code})
_NUMBERED = {word: str(word) for word in Nvlink} | {Nvlink.NOTHING_TO_JOIN: "nothing to join"}


def judge(examined: ExaminedPod, reach: Reach, findings: Sequence[Finding]) -> Judgement:
    """Returns whether the pod really has NVLink.

    Args:
        examined: The pod.
        reach: The extent to which NCCL can use NVLink, as far as the conditions tell.
        findings: All conditions of the pod.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    deciding = [finding for finding in findings if finding.condition not in PREPARATION]
    failing = [finding for finding in deciding if finding.fails]
    stopped = next((finding for finding in findings if finding.condition in _STOPS_THE_POD and finding.stops), None)
    if stopped:
        return _decided(Nvlink.NO, stopped)
    if reach is Reach.NOTHING_TO_JOIN:
        return Judgement(Nvlink.NOTHING_TO_JOIN, _nothing_to_join(examined))
    certain = next(filter(is_certain, failing), None)
    if certain:
        return _decided(Nvlink.NO, certain)
    # What was counted or measured of its own GPUs says nothing of its peers.
    unreached = [finding for finding in deciding if finding.code in _ABOUT_PEERS]
    if not unreached and (proof := _proof(examined, findings)):
        return Judgement(Nvlink.YES, proof)
    unknown = [finding for finding in deciding if finding.verdict is Verdict.UNKNOWN]
    unknown.sort(key=lambda finding: finding.condition != NCCL_LOG)  # who gives a log wants to know what it lacks
    open_ones = [*unreached, *failing, *unknown]
    if open_ones:
        return _decided(Nvlink.UNKNOWN, open_ones[0])
    if problem := examined.requests_problem or examined.unrecognized:
        return Judgement(Nvlink.UNKNOWN, problem.text, problem.fix, problem.code)
    if reach is Reach.UNKNOWN:
        return Judgement(Nvlink.UNKNOWN, "it is not known which GPUs work together")
    if verified(examined.evidence.pod)[0] is Verified.YES:
        return Judgement(
            Nvlink.YES, "every condition that decides holds, and the pod verified its GPUs when it started"
        )
    return _unverified(
        (NOT_VERIFIED_YET if examined.injected else NEVER_VERIFIED).say(pod=examined.evidence.pod.display_name)
    )


def _nothing_to_join(examined: ExaminedPod) -> str:
    """Returns the evidence that the pod has no two GPUs that work together."""
    if not examined.gpu_containers:
        return "the pod requests no GPUs"
    if not examined.alone:
        return "the GPUs of the pod do not work together"
    if examined.job:
        return f"each container has one GPU, and no other rank of {examined.job.name} is on its node"
    return "each container has one GPU, and nothing in the pod shows that it works with others"


def _decided(nvlink: Nvlink, finding: Finding) -> Judgement:
    how_sure, condition = sureness(finding) or "", finding.condition
    return Judgement(nvlink, finding.evidence, finding.remedy, finding.code, sureness=how_sure, condition=condition)


def _proof(examined: ExaminedPod, findings: Sequence[Finding]) -> str:
    """Returns what NCCL said, or what was counted or measured, of NVLink between the GPUs of the pod; else nothing."""
    said = next(
        (found.evidence for found in findings if found.condition == NCCL_LOG and found.verdict is Verdict.HOLDS), ""
    )
    if said:
        return said
    if used_nvlink(examined):
        return "its GPUs moved bytes over NVLink in the last minutes"
    if any(finding.condition == MEASURED and finding.verdict is Verdict.HOLDS for finding in findings):
        return "gpu-topology verify measured that its GPUs are as fast as expected"
    return ""


def _unverified(message: Message) -> Judgement:
    said = f"every condition that decides holds; {message.text}"
    return Judgement(Nvlink.UNKNOWN, said, message.fix, message.code)


def numbers(words: Iterable[Nvlink]) -> dict[Nvlink, int]:
    """Returns the number of pods for each word."""
    found = Counter(words)
    return {word: found[word] for word in Nvlink}


def numbers_text(words: Iterable[Nvlink]) -> str:
    """Returns the numbers in words: ``NVLink of 4 pods with GPUs: yes 1, no 1, unknown 2``."""
    found = numbers(words)
    said = ", ".join(f"{_NUMBERED[word]} {number}" for word, number in found.items() if number)
    pods = counted(sum(found.values()), "pod")
    return f"NVLink of {pods} with GPUs: {said}" if said else f"NVLink: {pods} with GPUs"

"""What the files of a run say of each claim of this project."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import Any

import msgspec

from tests.gpu import steps
from tests.gpu.model import Ran, StepResult, Verdict, Word
from tests.gpu.nccl_defaults import NcclDefaults
from tests.gpu.nccl_dump import difference, read_cards
from tests.gpu.nccl_log import Channel, NcclLog, read_nccl_log
from tests.gpu.pods import CONTROL, EXCLUSIVE, NODE_PEERS, POD_PEERS, PodCase
from tests.gpu.steps import NO_FILE
from webhook.hardware.measurement.report import Warn
from webhook.hardware.measurement.verdict import CARRIED
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.matrix import UNKNOWN, matrix
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.readers.recognition import read_topology
from webhook.programs.remap.verdict import ExitCode
from webhook.words.errors import FormatError
from webhook.words.nesting import decode
from webhook.words.printable import fitted

_ANY = msgspec.json.Decoder()
_GOOD = "as-expected"
_NO_CLUSTER = "no namespace of a cluster was named: --namespace"
MOST_COUNTED = 1.25
"""Times the copied bytes: counters that rise by more count something else than data. It is our choice; other work of
the cards counts too."""
SLOWER, AS_FAST = 1.02, 1.05
"""A step takes so many times as long: it is slower beyond doubt; it is no slower."""


class Seen:
    """What a run left.

    Args:
        ran: The steps by their names.
        files: The files by their names below the folder.
        hindered: Why steps were not run, by their names.
    """

    def __init__(
        self, ran: Mapping[str, Ran], files: Mapping[str, bytes], hindered: Mapping[str, str] | None = None
    ) -> None:
        self.ran, self.files, self.hindered = ran, files, hindered or {}

    def text(self, name: str) -> str:
        """A file as text; empty if it is not there."""
        return self.files.get(name, b"").decode(errors="replace")

    def document(self, name: str) -> dict[str, Any]:
        """A file with a JSON object; empty if it is none."""
        try:
            found = decode(_ANY, self.files.get(name, b""))
        except msgspec.DecodeError:
            return {}
        return found if isinstance(found, dict) else {}

    def log(self, name: str) -> NcclLog:
        """What NCCL said."""
        return read_nccl_log(self.text(name).splitlines())

    def hindrance(self, *names: str) -> str:
        """Why one of these steps says nothing; empty if all were done."""
        for name in names:
            found = self.ran.get(name)
            if found is None:
                return self.hindered.get(name) or f"there was no step {name}"
            if found.exit_code is None:
                return f"step {name}: {found.problem}"
        return ""

    @cached_property
    def topology(self) -> NodeTopology | None:
        """As this project reads it; None if it could not."""
        try:
            return parse_topology(self.text(steps.TOPOLOGY), source=steps.TOPOLOGY)
        except FormatError:
            return None


Found = tuple[Word, str]


def verdicts(seen: Seen) -> tuple[Verdict, ...]:
    """One for each claim, in their order. What was seen is quoted from logs of other programs, and so is fitted."""
    return tuple(
        Verdict(claim=claim, says=says, verdict=word, why=fitted(why))
        for claim, says, judge in CLAIMS
        for word, why in (judge(seen),)
    )


def proved(results: Sequence[StepResult], seen: Seen) -> list[StepResult]:
    """The results of steps, without a control that shows nothing: it may end with 1, as it does where all hangs."""
    why = _nothing_measured(seen, steps.REPORT_WITHOUT)
    return [
        msgspec.structs.replace(each, verdict=Word.NOT_TRIED, why=why)
        if why and each.step == steps.WITHOUT_P2P and each.verdict is Word.HOLDS
        else each
        for each in results
    ]


def _topology(seen: Seen) -> Found:
    ours = seen.topology
    if ours is None or not ours.gpus:
        return Word.NOT_TRIED, seen.hindrance("topology") or "no topology of this machine could be read"
    try:
        theirs = read_topology(seen.text(steps.TOPOLOGY_TEXT), node=ours.node, source=steps.TOPOLOGY_TEXT)
    except FormatError as error:
        return Word.NOT_TRIED, seen.hindrance("nvidia-smi-topo") or str(error)
    here, there = _words(ours), _words(theirs)
    if here.keys() != there.keys():
        return Word.FAILS, f"nvidia-smi lists {len(theirs.gpus)} cards, and this project {len(ours.gpus)}"
    known = [pair for pair, word in here.items() if UNKNOWN not in (word, there[pair])]
    if not known:
        return Word.NOT_TRIED, _alone(seen) or f"none of the {len(here)} cells is known on both sides"
    other = [pair for pair in known if here[pair] != there[pair]]
    if other:
        one = other[0]
        said = f"{'-'.join(one)} is {here[one]} here and {there[one]} there"
        return Word.FAILS, f"{len(other)} of {len(here)} cells differ: {said}"
    unknown = f", {len(here) - len(known)} are not known on both sides" if len(known) < len(here) else ""
    counted = "all" if not unknown else f"{len(known)} of"
    return Word.HOLDS, f"{counted} {len(here)} cells between {len(ours.gpus)} cards are the same{unknown}"


def _alone(seen: Seen) -> str:
    """Why nothing between cards can be tried; empty where there are several."""
    is_alone = seen.topology is not None and len(seen.topology.gpus) == 1
    return "there is one card here, and this is about several" if is_alone else ""


def _words(topology: NodeTopology) -> dict[tuple[str, str], str]:
    """What stands between two GPUs."""
    found, count = matrix(topology), len(topology.gpus)
    labels = found.labels[:count]
    return {
        (row.label, other): word
        for row in found.rows[:count]
        for other, word in zip(labels, row.words[:count], strict=True)
        if row.label != other
    }


def _file(seen: Seen) -> Found:
    log = seen.log(steps.NCCL_LOG)
    if not seen.files.get(steps.NCCL_FILE):
        return Word.NOT_TRIED, _alone(seen) or seen.hindrance("topology-file") or NO_FILE
    if not log.is_built:
        return Word.NOT_TRIED, _alone(seen) or seen.hindrance("verify") or "NCCL did not say what topology it has"
    if not log.topology_file.endswith(steps.NCCL_FILE) or not log.is_file_opened:
        return Word.FAILS, f"NCCL {log.version} did not read the file"
    if any("XML" in warning for warning in log.warnings):
        return Word.FAILS, next(warning for warning in log.warnings if "XML" in warning)
    bandwidth = f", and reckons with {log.max_bandwidth:g} GB/s" if log.max_bandwidth is not None else ""
    return Word.HOLDS, f"NCCL {log.version} read it{bandwidth}"


def _dump(seen: Seen) -> Found:
    """What NCCL found by itself, beside the file that we would give it."""
    is_alone = bool(_alone(seen))
    step, name = ("nccl-plain", steps.CARD_DUMP) if is_alone else ("nccl-cards-plain", steps.CARDS_DUMP)
    ours, theirs = (read_cards(seen.text(each)) for each in (steps.NCCL_FILE, name))
    if not ours or not theirs:
        missing = "NCCL wrote no topology of its own" if ours else NO_FILE
        return Word.NOT_TRIED, seen.hindrance(step) or missing
    said = difference(ours, theirs)
    counted = f"{len(theirs)} {'cards' if len(theirs) > 1 else 'card, whose links to other cards NCCL leaves out'}"
    return (Word.FAILS, said) if said else (Word.HOLDS, f"NVLinks, C2C and NUMA node of {counted} are the same")


def _effect(seen: Seen) -> Found:
    """All-reduces of all cards with our file beside those without."""
    told, plain = (_reduced(seen.document(name)) for name in (steps.CARDS_FILE, steps.CARDS_PLAIN))
    if not (told and plain):
        hindrance = _alone(seen) or seen.hindrance("nccl-cards-file", "nccl-cards-plain")
        return Word.NOT_TRIED, hindrance or "NCCL of all cards did not reduce both with the file and without"
    said = f"{told:.4g} ms for an all-reduce with the file, {plain:.4g} without"
    return (Word.HOLDS if told <= AS_FAST * plain else Word.FAILS), said


def _reduced(document: Mapping[str, Any]) -> float | None:
    times = document.get("milliseconds")
    numbers = [time for time in times if isinstance(time, float) and time > 0] if isinstance(times, list) else []
    return median(numbers) if numbers else None


def _counters(seen: Seen) -> Found:
    """Bytes that the counters of both cards show, beside those that were copied over their NVLinks."""
    found = _pair_documents(seen, steps.REPORT)
    linked = [pair for pair in found if str(pair.get("link")).startswith("NV") and pair.get("peerAccess") is True]
    shares = [share for pair in linked if (share := _moved_share(pair)) is not None]
    if not shares:
        hindrance = _alone(seen) or seen.hindrance("verify")
        return Word.NOT_TRIED, hindrance or "no pair over NVLink was measured on cards that count bytes"
    least, most = min(each for each, _ in shares), max(each for _, each in shares)
    said = f"{least:.3g} to {most:.3g} of the bytes that were copied, in {len(shares)} of {len(linked)} directions"
    return (Word.HOLDS if least >= CARRIED and most <= MOST_COUNTED else Word.FAILS), said


def _moved_share(pair: Mapping[str, Any]) -> tuple[float, float] | None:
    """The least and the greatest share of the copied bytes that a counter shows; None where one is missing."""
    copied, counted = pair.get("copiedBytes"), [pair.get(name) for name in ("nvlinkSentBytes", "nvlinkReceivedBytes")]
    numbers = [number for number in counted if isinstance(number, int)]
    if len(numbers) < len(counted) or not isinstance(copied, int) or copied <= 0:
        return None
    return min(numbers) / copied, max(numbers) / copied


def _mapping(seen: Seen) -> Found:
    hindrance = seen.hindrance(steps.RIGHT, steps.WRONG)
    if hindrance:
        return Word.NOT_TRIED, hindrance
    right, wrong = seen.ran[steps.RIGHT].exit_code, seen.ran[steps.WRONG].exit_code
    cards = "the card" if _alone(seen) else "two cards"
    said = f"exit code {right} with {cards} of this machine, {wrong} with one that is not here"
    return (Word.HOLDS if (right, wrong) == (ExitCode.TRUE, ExitCode.GPU_MISSING) else Word.FAILS), said


def _links(seen: Seen) -> Found:
    known = _pairs(seen, steps.REPORT)
    if not known:
        hindrance = _alone(seen) or seen.hindrance("verify") or _nothing_measured(seen, steps.REPORT)
        return Word.NOT_TRIED, hindrance or "no pair of cards could be measured and judged"
    others = len(_pair_documents(seen, steps.REPORT)) - len(known)
    said = f"{_counted(known)}{f', {others} could not be judged' if others else ''}"
    return (Word.HOLDS if set(known) == {_GOOD} else Word.FAILS), said


def _nothing_measured(seen: Seen, name: str) -> str:
    """Why a report of ``verify`` has no measurement at all; empty where it has one, or where there is no report."""
    report = seen.document(name)
    skipped = report.get("skipped")
    if not isinstance(skipped, list) or report.get("pairs") or report.get("sets"):
        return ""
    reasons = Counter(str(each.get("reason")) for each in skipped if isinstance(each, dict))
    return f"nothing was measured: {', '.join(f'{count} {reason}' for reason, count in reasons.most_common())}"


def _pairs(seen: Seen, name: str) -> Sequence[str]:
    """The verdicts of a report about the pairs of which anything is known. Of wrong data it is that they are wrong."""
    return [word for word in map(_word, _pair_documents(seen, name)) if word != "unknown"]


def _word(pair: Mapping[str, Any]) -> str:
    warnings = pair.get("warnings")
    is_wrong = isinstance(warnings, list) and Warn.WRONG_DATA in warnings
    return Warn.WRONG_DATA if is_wrong else str(pair.get("verdict"))


def _pair_documents(seen: Seen, name: str) -> Sequence[Mapping[str, Any]]:
    pairs = seen.document(name).get("pairs")
    return [pair for pair in pairs if isinstance(pair, dict)] if isinstance(pairs, list) else []


def _nccl(seen: Seen) -> Found:
    log, control = seen.log(steps.NCCL_LOG), seen.log(steps.NCCL_LOG_WITHOUT)
    if log.is_built and not log.is_told and log.nvls_channels:
        return Word.NOT_TRIED, "NCCL connected the cards by NVLS alone, and named no pair of them"
    if not (log.is_told and control.is_told):
        hindrance = _alone(seen) or seen.hindrance("verify", "verify-without-p2p")
        return Word.NOT_TRIED, hindrance or "NCCL did not say how it connected"
    said = f"by {_listed(log)}, and by {_listed(control)} with {steps.WITHOUT_LINKS}"
    if "P2P" in control.transports or control.nvls_channels:
        return Word.NOT_TRIED, f"the control shows nothing: {said}"
    defaults = NcclDefaults(seen.topology) if seen.topology else None
    slower = sorted(channel for channel in log.channels if _is_slower(channel, defaults))
    if slower:
        one = slower[0]
        return Word.FAILS, f"{one.source} to {one.target} by {one.transport}, where NCCL has better: {said}"
    return Word.HOLDS, f"{said}, as NCCL chooses by itself"


def _is_slower(channel: Channel, defaults: NcclDefaults | None) -> bool:
    """Whether two cards are joined by less than NCCL's own choice; of cards that nobody knows that is the best."""
    is_shared_memory_enough = defaults is not None and defaults.is_peer_to_peer(channel) is False
    return channel.transport not in ({"P2P", "SHM"} if is_shared_memory_enough else {"P2P"})


def _listed(log: NcclLog) -> str:
    return ", ".join([*sorted(log.transports), *(["NVLS"] if log.nvls_channels else [])])


def _training(seen: Seen) -> Found:
    names = (steps.TRAINING, steps.TRAINING_PLAIN, steps.TRAINING_WITHOUT)
    told, plain, without = (_step_seconds(seen.document(name)) for name in names)
    if not (told and plain and without):
        hindrance = _alone(seen) or seen.hindrance("training", "training-plain", "training-without-p2p")
        return Word.NOT_TRIED, hindrance or "PyTorch did not write its times: is it installed, with CUDA?"
    said = f"{told * 1000:.4g} ms a step, {plain * 1000:.4g} without the file, {without * 1000:.4g} without NVLink"
    if without < SLOWER * plain:
        return Word.NOT_TRIED, f"the control shows nothing: {said}"
    return (Word.HOLDS if told <= AS_FAST * plain else Word.FAILS), said


def _step_seconds(document: Mapping[str, Any]) -> float | None:
    times = document.get("stepSeconds")
    if document.get("backend") != "nccl" or not isinstance(times, list) or not times:
        return None
    numbers = [time for time in times if isinstance(time, int | float) and time > 0]
    return median(numbers) if len(numbers) == len(times) else None


def _exclusive(seen: Seen) -> Found:
    """A pod with two cards, and the same without injection."""
    words, control = _pairs(seen, EXCLUSIVE.report), _pairs(seen, CONTROL.report)
    if not words:
        return _without_report(seen, EXCLUSIVE)
    said = f"{_counted(words)} with injection, and {_counted(control)} without"
    if control and set(control) == {_GOOD}:
        return Word.NOT_TRIED, f"the control shows nothing: {said}"
    return (Word.HOLDS if set(words) == {_GOOD} else Word.FAILS), said


def _peers(case: PodCase) -> Callable[[Seen], Found]:
    """Pods that exchange GPU memory: what arrived was compared, so a handle that works needs no control."""

    def judge(seen: Seen) -> Found:
        outcomes = seen.document(case.report).get("outcomes")
        found = [each for each in outcomes if isinstance(each, dict)] if isinstance(outcomes, list) else []
        if not found:
            return _without_report(seen, case)
        works = sorted({str(each.get("kind")) for each in found if each.get("verdict") == "works"})
        said = f"{', '.join(works)} of {len(found)} trials" if works else f"none of {len(found)} trials"
        return (Word.HOLDS if works else Word.FAILS), f"memory was exchanged by {said}"

    return judge


def _without_report(seen: Seen, case: PodCase) -> Found:
    """Why the pods tell nothing."""
    create, wait, log = (f"{case.name}-{step}" for step in ("create", "wait", "log"))
    if log not in seen.ran:
        return Word.NOT_TRIED, _NO_CLUSTER
    hindrance = seen.hindrance(create, wait, log)
    return Word.NOT_TRIED, hindrance or f"the log of the pod has no report; pods/{case.name} says more"


def _counted(words: Sequence[str]) -> str:
    return f"{words.count(_GOOD)} of {len(words)} pairs as expected" if words else "no report"


CLAIMS: Sequence[tuple[str, str, Callable[[Seen], Found]]] = (
    ("topology", "The topology that is published is the one that nvidia-smi shows.", _topology),
    ("topology-file", "NCCL reads the topology file that is written for it.", _file),
    ("mapping", "The program in the pod accepts the right cards, and stops at a wrong one.", _mapping),
    ("links", "Cards that are linked reach each other as fast as their links carry.", _links),
    ("nccl", "NCCL connects the cards as it would choose for their links, and by nothing slower.", _nccl),
    (
        "training",
        "A training step takes as long with the topology file as without, and longer without NVLink.",
        _training,
    ),
    (
        "exclusive",
        "A pod with two cards has NVLink with injection; whether it has less without is not proven.",
        _exclusive,
    ),
    ("topology-dump", "NCCL finds by itself the NVLinks and NUMA nodes that our topology file has.", _dump),
    ("topology-effect", "NCCL reduces over all cards as fast with our topology file as without.", _effect),
    ("counters", "The counters of NVLink rise by the bytes that copies move.", _counters),
    ("pod-peers", "Two containers of a pod exchange GPU memory with the profile pod-peers.", _peers(POD_PEERS)),
    ("node-peers", "Two pods of a node exchange GPU memory with the profile node-peers.", _peers(NODE_PEERS)),
)
"""The word, the sentence, and what judges it."""

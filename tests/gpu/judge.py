"""What the files of a run say of each claim of this project."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import Any

import msgspec

from tests.gpu import steps
from tests.gpu.model import Ran, Verdict, Word
from tests.gpu.nccl_defaults import NcclDefaults
from tests.gpu.nccl_log import Channel, NcclLog, read_nccl_log
from tests.gpu.pods import CONTROL, EXCLUSIVE, NODE_PEERS, POD_PEERS, PodCase
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
SLOWER, AS_FAST = 1.02, 1.05
"""A step takes so many times as long: it is slower beyond doubt; it is no slower."""


class Seen:
    """What a run left.

    Args:
        ran: The steps by their names.
        files: The files by their names below the folder.
    """

    def __init__(self, ran: Mapping[str, Ran], files: Mapping[str, bytes]) -> None:
        self.ran, self.files = ran, files

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
                return f"there was no step {name}"
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
    if not log.is_built:
        return Word.NOT_TRIED, _alone(seen) or seen.hindrance("verify") or "NCCL did not say what topology it has"
    if not log.topology_file.endswith(steps.NCCL_FILE) or not log.is_file_opened:
        return Word.FAILS, f"NCCL {log.version} did not read the file"
    if any("XML" in warning for warning in log.warnings):
        return Word.FAILS, next(warning for warning in log.warnings if "XML" in warning)
    bandwidth = f", and reckons with {log.max_bandwidth:g} GB/s" if log.max_bandwidth is not None else ""
    return Word.HOLDS, f"NCCL {log.version} read it{bandwidth}"


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
        return Word.NOT_TRIED, _alone(seen) or seen.hindrance(
            "verify"
        ) or "no pair of cards could be measured and judged"
    return (Word.HOLDS if set(known) == {_GOOD} else Word.FAILS), _counted(known)


def _pairs(seen: Seen, name: str) -> Sequence[str]:
    """The verdicts of a report about the pairs of which anything is known."""
    pairs = seen.document(name).get("pairs")
    words = [str(pair.get("verdict")) for pair in pairs if isinstance(pair, dict)] if isinstance(pairs, list) else []
    return [word for word in words if word != "unknown"]


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
    ("pod-peers", "Two containers of a pod exchange GPU memory with the profile pod-peers.", _peers(POD_PEERS)),
    ("node-peers", "Two pods of a node exchange GPU memory with the profile node-peers.", _peers(NODE_PEERS)),
)
"""The word, the sentence, and what judges it."""

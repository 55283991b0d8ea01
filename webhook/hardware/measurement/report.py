"""The report ``gpu.topology/v1 BandwidthReport``: its members, its JSON form, and two reports compared.

An unknown value is null. The names of members have the units. All samples are in the report. Environment variables are
listed by name, without their values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from webhook.words import names
from webhook.words.errors import FormatError, ManifestError
from webhook.words.nesting import decode
from webhook.words.shape import shape_problem

API_VERSION = names.PREFIX + "v1"
KIND = "BandwidthReport"
MAX_BYTES = 16 * 1024 * 1024
MAX_CARDS, MAX_TEXT = 64, 256
_DIGITS = 3
"""Decimals of numbers that are not whole; further digits are noise."""
_LEAST_LOSS = 0.02
"""Share of an earlier rate up to which a loss is ignored, however steady the samples are."""
_SAMPLES = 1000

Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Uuid = Annotated[str, Meta(min_length=1, max_length=64)]
Amount = Annotated[float, Meta(ge=0, le=1e9)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Samples = Annotated[list[Amount], Meta(max_length=_SAMPLES)]
Cards = Annotated[list[Uuid], Meta(min_length=2, max_length=MAX_CARDS)]


class Verdict(StrEnum):
    """The verdict on a pair or on a set."""

    AS_EXPECTED = "as-expected"
    SLOWER = "slower"
    NOT_NVLINK = "not-nvlink"
    """NVLink should have carried the bytes and did not."""
    UNKNOWN = "unknown"
    """The way of the bytes is not proven, or the expected bandwidth is unknown."""


class Warn(StrEnum):
    """A warning that is added to a verdict or to a report."""

    NO_COUNTERS = "no-nvlink-counters"
    """The driver does not count bytes over NVLink, so only the rate indicates the way of the bytes."""
    COUNTERS_DISAGREE = "counters-disagree"
    """NVLink carried some of the bytes: more than a tenth and less than nine tenths, or only one card counted them."""
    COUNTERS_AT_REST = "counters-at-rest"
    """The counters of NVLink hardly rose, although no PCIe slot is so fast. They say nothing about this measurement."""
    NO_PEER_ACCESS = "no-peer-access"
    """The driver gives the cards no access to each other, so copies go through the memory of the host."""
    UNEXPECTED_NVLINK = "unexpected-nvlink"
    """NVLink carried the bytes, but the topology has no NVLink there."""
    WRONG_DATA = "wrong-data"
    """The data on the target differ from those of the source."""
    NO_EXPECTATION = "no-expectation"
    WAY_UNPROVEN = "way-unproven"
    """There are no counters, and PCIe could have been as fast."""
    PEER_ACCESS_SLOWER = "peer-access-slower"
    """Copies through the memory of the host are as fast as expected, and copies from card to card are not: the chipset
    forwards them slowly."""
    NO_NVLS = "no-nvls"
    """The all-reduce is as fast as NCCL's rings, where NCCL lets NVSwitches reduce, which is faster."""
    UNSTEADY = "unsteady"
    """The samples differ by more than a tenth of their median."""
    PRELOADED_HAMI = "preloaded-hami"
    """HAMi's library is in /etc/ld.so.preload. With some of its versions NCCL hangs."""
    NO_NCCL = "no-nccl"
    """There is no libnccl.so.2, so no all-reduce was measured."""


class Skipped(StrEnum):
    """The reason why something was not measured."""

    BUSY = "busy"
    """Other processes use the card."""
    MIG = "mig"
    NOT_VISIBLE = "not-visible-to-cuda"
    TIMED_OUT = "step-timed-out"
    ENDED = "process-ended"
    GIVEN_UP = "given-up"
    """Too many earlier steps were lost."""
    FAILED = "call-failed"
    NO_MEMORY = "no-memory"
    NO_NCCL = "no-nccl"
    NOT_ASKED = "not-asked"
    INTERRUPTED = "interrupted"
    """The run was ended before everything was measured, or the report is from before its end."""


_WORDS = {"gbps": "GBps", "us": "Microseconds"}
_MEMBERS = {
    "staged_gbps": "withoutPeerAccessGBps",
    "staged_samples_gbps": "withoutPeerAccessSamplesGBps",
    "sent_bytes": "nvlinkSentBytes",
    "received_bytes": "nvlinkReceivedBytes",
}


def member_name(field: str) -> str:
    """Returns the name of a field in JSON: in camel case, with its unit."""
    first, *others = field.split("_")
    return _MEMBERS.get(field) or first + "".join(_WORDS.get(word, word.capitalize()) for word in others)


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename=member_name):
    """A part of the report. Unknown members, which a newer program may write, are ignored."""


class Versions(_Part, frozen=True, kw_only=True):
    """The versions of the programs and libraries; null if unknown."""

    tool: Text
    driver: Text | None = None
    cuda: Text | None = None
    """The version of CUDA that the driver supports."""
    nccl: Text | None = None


class Card(_Part, frozen=True, kw_only=True):
    """A card of the machine."""

    uuid: Uuid
    index: Count
    """NVML index."""
    name: Text | None = None
    pci_bus_id: Text | None = None
    processes: Count | None = None
    """Processes that used the card before the measurement."""
    used_bytes: Count | None = None


class How(_Part, frozen=True, kw_only=True):
    """The method of the measurement."""

    copy_bytes: Count
    copies: Count
    staged_copies: Count
    samples: Count
    warm_ups: Count
    step_seconds: Amount


class Pair(_Part, frozen=True, kw_only=True):
    """Copies from one card to another, in GB/s (1e9 bytes) in that direction."""

    source: Uuid
    target: Uuid
    link: Text | None = None
    """The link in the topology, in the words of nvidia-smi topo -m."""
    chipset: Text | None = None
    """The CPU through which copies over PCIe go; null if they go through none, or if it is unknown."""
    peer_access: bool
    rank: int | None
    """The driver's rank of the link."""
    measured_gbps: Amount | None = None
    """The median of the samples."""
    spread_gbps: Amount | None = None
    """Difference between the fastest and the slowest sample; null for one sample."""
    samples_gbps: Samples
    """The samples with peer access, or without it if there is none."""
    staged_gbps: Amount | None = None
    staged_samples_gbps: Samples
    latency_us: Amount | None
    copied_bytes: Count
    """Bytes copied between the two readings of the counters."""
    sent_bytes: Count | None
    """Bytes sent over the NVLinks of the source, by its counters."""
    received_bytes: Count | None
    expected_gbps: Amount | None = None
    pcie_gbps: Amount | None = None
    """Bandwidth of the slower of the two PCIe slots."""
    ratio: Amount | None = None
    verdict: Verdict = Verdict.UNKNOWN
    warnings: list[Warn] = []


class ReducedSize(_Part, frozen=True, kw_only=True):
    """All-reduces of a smaller size than the one that is judged."""

    reduced_bytes: Count
    busbw_gbps: Amount | None
    """The median of the samples."""


class CardSet(_Part, frozen=True, kw_only=True):
    """An all-reduce of several cards, in GB/s. busbw is algbw x 2(n-1)/n, as in nccl-tests."""

    cards: Cards
    link: Text | None = None
    algbw_gbps: Amount | None = None
    busbw_gbps: Amount | None = None
    """The median of the samples."""
    spread_gbps: Amount | None = None
    """Spread of busbw."""
    samples_gbps: Samples
    """Samples of busbw."""
    reduced_bytes: Count
    reductions: Count
    """Number of all-reduces between the two readings of the counters."""
    sent_bytes: Annotated[list[Count | None], Meta(max_length=MAX_CARDS)]
    """Bytes that each card sent over NVLink meanwhile; null without counters."""
    expected_gbps: Amount | None = None
    """Busbw of the algorithm that NCCL chooses: of the best ring of the topology, or of NVLS."""
    nvls: bool = False
    """Whether NVLS, the reduction by the NVSwitches, is expected."""
    latency_us: Amount | None = None
    """Time of an all-reduce of a few bytes."""
    smaller: Annotated[list[ReducedSize], Meta(max_length=64)] = []
    pcie_gbps: Amount | None = None
    ratio: Amount | None = None
    verdict: Verdict = Verdict.UNKNOWN
    warnings: list[Warn] = []


class Omission(_Part, frozen=True, kw_only=True):
    """Cards that were not measured, with the reason."""

    cards: Annotated[list[Uuid], Meta(max_length=MAX_CARDS)]
    reason: Skipped
    function: Text | None = None
    """The function that failed."""
    code: int | None = None
    problem: Text | None = None
    """Why a library that exists cannot be loaded, or what it says of the function that failed."""


class BandwidthReport(_Part, frozen=True, kw_only=True):
    """The report of one run on one machine."""

    node: Text
    time: Text
    """RFC 3339, in UTC."""
    versions: Versions
    how: How
    environment: Annotated[list[Text], Meta(max_length=512)]
    """Names of the variables that influence CUDA and NCCL."""
    preloaded: Annotated[list[Text], Meta(max_length=64)]
    """File names in /etc/ld.so.preload."""
    cards: Annotated[list[Card], Meta(max_length=MAX_CARDS)]
    pairs: Annotated[list[Pair], Meta(max_length=MAX_CARDS * (MAX_CARDS - 1))]
    sets: Annotated[list[CardSet], Meta(max_length=MAX_CARDS)]
    skipped: Annotated[list[Omission], Meta(max_length=2 * MAX_CARDS * MAX_CARDS)]
    warnings: list[Warn]

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on all pairs and sets."""
        return [*(pair.verdict for pair in self.pairs), *(one.verdict for one in self.sets)]

    @property
    def is_as_expected(self) -> bool:
        """Whether something was measured, every verdict is as expected, and nothing failed."""
        lost = {Skipped.TIMED_OUT, Skipped.ENDED, Skipped.GIVEN_UP, Skipped.FAILED, Skipped.NO_MEMORY}
        lost.add(Skipped.INTERRUPTED)
        failed = any(omission.reason in lost for omission in self.skipped)
        return bool(self.verdicts) and set(self.verdicts) == {Verdict.AS_EXPECTED} and not failed


def format_report(report: BandwidthReport) -> str:
    """Writes the JSON form, which ``parse_report`` reads."""
    document = {"apiVersion": API_VERSION, "kind": KIND} | _rounded(msgspec.to_builtins(report))
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def parse_report(data: bytes, *, source: str) -> BandwidthReport:
    """Reads the JSON form.

    Args:
        data: The report in UTF-8.
        source: Its name in messages.

    Raises:
        ManifestError: the data are no JSON, or of another shape.
        FormatError: the data are no BandwidthReport of v1, have more than 16 MiB, or contradict themselves.
    """
    if len(data) > MAX_BYTES:
        raise FormatError(source, expected=f"at most {MAX_BYTES} bytes", found=f"{len(data)} bytes")
    try:
        head = decode(_HEAD, data)
        if (head.api_version, head.kind) != (API_VERSION, KIND):
            found = f"{head.kind or 'no kind'} of {head.api_version or 'no version'}"
            raise FormatError(source, expected=f"{KIND} of {API_VERSION}", found=found)
        report = decode(_REPORT, data)
    except msgspec.DecodeError as error:
        raise ManifestError(f"{source}: no {KIND} can be read: {shape_problem(error)}") from None
    return _consistent(report, source)


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


_HEAD = msgspec.json.Decoder(_Head)
_REPORT = msgspec.json.Decoder(BandwidthReport)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_rounded(entry) for entry in value]
    return round(value, _DIGITS) if isinstance(value, float) else value


def _consistent(report: BandwidthReport, source: str) -> BandwidthReport:
    """Checks that pairs and sets name only cards of the report, and that each card and each pair is listed once.

    Raises:
        FormatError: one of these is not so.
    """
    known = {card.uuid for card in report.cards}
    if len(known) < len(report.cards):
        raise FormatError(f"{source}: cards", expected="each card once", found="one twice")
    pairs = {(pair.source, pair.target) for pair in report.pairs}
    if len(pairs) < len(report.pairs):
        raise FormatError(f"{source}: pairs", expected="each pair once", found="one twice")
    for place, pair in enumerate(report.pairs):
        if pair.source == pair.target or not {pair.source, pair.target} <= known:
            found = f"{pair.source} and {pair.target}"
            raise FormatError(f"{source}: pairs[{place}]", expected="two cards of the report", found=found)
    for place, together in enumerate(report.sets):
        if not known.issuperset(together.cards) or len(set(together.cards)) < len(together.cards):
            found = ", ".join(together.cards)
            raise FormatError(f"{source}: sets[{place}]", expected="cards of the report, each once", found=found)
    return report


@dataclass(frozen=True, slots=True)
class Change:
    """A pair or a set that became slower."""

    cards: tuple[str, ...]
    """UUIDs of the cards; of a pair its source and its target."""
    before_gbps: float
    now_gbps: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of the comparison of two reports."""

    compared: int
    """Number of pairs and sets that are in both reports."""
    missing: tuple[tuple[str, ...], ...]
    """Pairs and sets that are only in the earlier report."""
    slower: tuple[Change, ...]


def compare(before: BandwidthReport, now: BandwidthReport) -> Comparison:
    """Compares two reports. A loss counts if it is greater than the spread of the samples of either run."""
    earlier, later = dict(_rates(before)), dict(_rates(now))
    both = {cards: (earlier[cards], later[cards]) for cards in earlier if cards in later}
    return Comparison(
        compared=len(both),
        missing=tuple(cards for cards in earlier if cards not in later),
        slower=tuple(
            Change(cards, rate, rate_now)
            for cards, ((rate, spread), (rate_now, spread_now)) in both.items()
            if rate_now < rate - max(spread, spread_now, _LEAST_LOSS * rate)
        ),
    )


def _rates(report: BandwidthReport) -> Iterator[tuple[tuple[str, ...], tuple[float, float]]]:
    """Yields the rate of each pair and each set, with its spread."""
    for pair in report.pairs:
        if pair.measured_gbps:
            yield (pair.source, pair.target), (pair.measured_gbps, pair.spread_gbps or 0.0)
    for found in report.sets:
        if found.busbw_gbps:
            yield ("all-reduce", *sorted(found.cards)), (found.busbw_gbps, found.spread_gbps or 0.0)

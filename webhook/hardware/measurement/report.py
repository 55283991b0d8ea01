"""``gpu.topology/v1 BandwidthReport``: what was measured, what was expected, and the verdict on each.

Numbers are numbers, what is not known is null, and units stand in the names. Every sample is kept. Of variables only
the names are written.
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

MAX_CARDS, MAX_TEXT = 64, 256
_SAMPLES = 1000

Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Uuid = Annotated[str, Meta(min_length=1, max_length=64)]
Amount = Annotated[float, Meta(ge=0, le=1e9)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Samples = Annotated[list[Amount], Meta(max_length=_SAMPLES)]
Cards = Annotated[list[Uuid], Meta(min_length=2, max_length=MAX_CARDS)]


class Verdict(StrEnum):
    """On a pair, and on a set."""

    AS_EXPECTED = "as-expected"
    SLOWER = "slower"
    NOT_NVLINK = "not-nvlink"
    """NVLink should have carried it and did not."""
    UNKNOWN = "unknown"
    """Nothing proves which way the bytes took, or nothing is known of what to expect."""


class Warn(StrEnum):
    """What to know besides."""

    NO_COUNTERS = "no-nvlink-counters"
    """The driver does not count bytes over NVLink, so that only the rate says which way they took."""
    COUNTERS_DISAGREE = "counters-disagree"
    """NVLink carried some of the bytes: more than a tenth, less than nine tenths, or one card says so and not the
    other."""
    NO_PEER_ACCESS = "no-peer-access"
    """The driver lets neither card reach the other, so copies go through the memory of the host."""
    UNEXPECTED_NVLINK = "unexpected-nvlink"
    """NVLink carried it, and the topology knows of none."""
    WRONG_DATA = "wrong-data"
    """The target had not what the source sent."""
    NO_EXPECTATION = "no-expectation"
    WAY_UNPROVEN = "way-unproven"
    """Without counters, PCIe could have carried it as fast."""
    UNSTEADY = "unsteady"
    """The samples differ by more than a tenth of their median."""
    PRELOADED_HAMI = "preloaded-hami"
    """HAMi's library stands in /etc/ld.so.preload; NCCL hangs with it in some versions."""
    NO_NCCL = "no-nccl"
    """There is no libnccl.so.2, so no all-reduce was measured."""


class Skipped(StrEnum):
    """Why something was not measured."""

    BUSY = "busy"
    """Other processes use the card."""
    MIG = "mig"
    NOT_VISIBLE = "not-visible-to-cuda"
    TIMED_OUT = "step-timed-out"
    ENDED = "process-ended"
    GIVEN_UP = "given-up"
    """Too many steps were lost before."""
    FAILED = "call-failed"
    NO_MEMORY = "no-memory"
    NO_NCCL = "no-nccl"
    NOT_ASKED = "not-asked"


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Members that a newer program wrote are ignored."""


class Versions(_Part, frozen=True, kw_only=True):
    """Null is what is not known."""

    tool: Text
    driver: Text | None = None
    cuda: Text | None = None
    """That the driver knows."""
    nccl: Text | None = None


class Card(_Part, frozen=True, kw_only=True):
    """A card of the machine."""

    uuid: Uuid
    index: Count
    """NVML's."""
    name: Text | None = None
    pci_bus_id: Text | None = None
    processes: Count | None = None
    """That used it before anything was measured."""
    used_bytes: Count | None = None


class How(_Part, frozen=True, kw_only=True):
    """How was measured."""

    copy_bytes: Count
    copies: Count
    staged_copies: Count
    samples: Count
    warm_ups: Count
    step_seconds: Amount


class Pair(
    _Part,
    frozen=True,
    kw_only=True,
    rename={
        "peer_access": "peerAccess",
        "measured_gbps": "measuredGBps",
        "spread_gbps": "spreadGBps",
        "samples_gbps": "samplesGBps",
        "staged_gbps": "withoutPeerAccessGBps",
        "staged_samples_gbps": "withoutPeerAccessSamplesGBps",
        "latency_us": "latencyMicroseconds",
        "copied_bytes": "copiedBytes",
        "sent_bytes": "nvlinkSentBytes",
        "received_bytes": "nvlinkReceivedBytes",
        "expected_gbps": "expectedGBps",
        "pcie_gbps": "pcieGBps",
    },
):
    """From one card to another, in GB/s (1e9 bytes) in that direction."""

    source: Uuid
    target: Uuid
    link: Text | None
    """What the topology says, in the words of nvidia-smi topo -m."""
    peer_access: bool
    rank: int | None
    """How the driver ranks the link."""
    measured_gbps: Amount | None
    """The median; with peer access, or without it where there is none."""
    spread_gbps: Amount | None
    """Between the fastest and the slowest sample; null for one sample."""
    samples_gbps: Samples
    staged_gbps: Amount | None
    staged_samples_gbps: Samples
    latency_us: Amount | None
    copied_bytes: Count
    """While the counters were watched."""
    sent_bytes: Count | None
    """Over the NVLinks of the source, as its counters say."""
    received_bytes: Count | None
    expected_gbps: Amount | None
    pcie_gbps: Amount | None
    """What the slot of the slower card lets through."""
    ratio: Amount | None
    verdict: Verdict
    warnings: list[Warn]


class CardSet(
    _Part,
    frozen=True,
    kw_only=True,
    rename={
        "algbw_gbps": "algbwGBps",
        "busbw_gbps": "busbwGBps",
        "spread_gbps": "spreadGBps",
        "samples_gbps": "samplesGBps",
        "expected_gbps": "expectedGBps",
        "pcie_gbps": "pcieGBps",
        "reduced_bytes": "reducedBytes",
        "sent_bytes": "nvlinkSentBytes",
    },
):
    """An all-reduce of several cards, in GB/s. busbw is algbw x 2(n-1)/n, as nccl-tests reckons it."""

    cards: Cards
    link: Text | None
    algbw_gbps: Amount | None
    busbw_gbps: Amount | None
    """The median."""
    spread_gbps: Amount | None
    """Of busbw."""
    samples_gbps: Samples
    """Of busbw."""
    reduced_bytes: Count
    reductions: Count
    sent_bytes: Annotated[list[Count | None], Meta(max_length=MAX_CARDS)]
    expected_gbps: Amount | None
    """Busbw of the best ring that the topology has."""
    pcie_gbps: Amount | None
    ratio: Amount | None
    verdict: Verdict
    warnings: list[Warn]


class Omission(_Part, frozen=True, kw_only=True):
    """What was not measured."""

    cards: Annotated[list[Uuid], Meta(max_length=MAX_CARDS)]
    reason: Skipped
    function: Text | None = None
    """That refused."""
    code: int | None = None
    problem: Text | None = None
    """Why a library that is there cannot be loaded."""


class BandwidthReport(_Part, frozen=True, kw_only=True):
    """One run on one machine."""

    node: Text
    time: Text
    """RFC 3339, in UTC."""
    versions: Versions
    how: How
    environment: Annotated[list[Text], Meta(max_length=512)]
    """Names of variables that change what CUDA and NCCL do."""
    preloaded: Annotated[list[Text], Meta(max_length=64)]
    """File names in /etc/ld.so.preload."""
    cards: Annotated[list[Card], Meta(max_length=MAX_CARDS)]
    pairs: Annotated[list[Pair], Meta(max_length=MAX_CARDS * (MAX_CARDS - 1))]
    sets: Annotated[list[CardSet], Meta(max_length=MAX_CARDS)]
    skipped: Annotated[list[Omission], Meta(max_length=2 * MAX_CARDS * MAX_CARDS)]
    warnings: list[Warn]

    @property
    def verdicts(self) -> list[Verdict]:
        """All of them."""
        return [*(pair.verdict for pair in self.pairs), *(one.verdict for one in self.sets)]

    @property
    def is_as_expected(self) -> bool:
        """Whether something was measured, all of it as expected, and nothing failed."""
        lost = {Skipped.TIMED_OUT, Skipped.ENDED, Skipped.GIVEN_UP, Skipped.FAILED, Skipped.NO_MEMORY}
        failed = any(omission.reason in lost for omission in self.skipped)
        return bool(self.verdicts) and set(self.verdicts) == {Verdict.AS_EXPECTED} and not failed

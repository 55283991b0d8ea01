"""The condition on rates between the GPUs of a pod, which ``gpu-topology verify`` measured and an annotation holds."""

from collections.abc import Iterator, Mapping

from webhook.hardware.measurement.report import Verdict
from webhook.hardware.measurement.summary import Summary, parse_summary
from webhook.hardware.topology.model import Gpu
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, hint, holds
from webhook.insight.explain.words import gpus
from webhook.words import names
from webhook.words.catalogue.traffic import MEASURED_OTHERS, MEASURED_UNREADABLE, MEASURED_WORSE
from webhook.words.catalogue.variables import NCCL_NEWER_THAN_FACTS
from webhook.words.errors import FormatError
from webhook.words.printable import fitted
from webhook.words.version import Version

MEASURED, NCCL_RELEASE = "measured", "nccl-release"
NEWEST_NCCL = Version(2, 32, 3)
"""The newest release of NCCL of which anything is known here: docs/nccl.md says what. A test compares it with the table
of facts."""


def measured(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields findings about the annotation; none without one, or where the GPUs of the pod are not known."""
    text = examined.evidence.pod.annotations.get(names.MEASURED)
    resolution = examined.resolution
    if not text or resolution is None:
        return
    try:
        found = parse_summary(text, f"annotation {names.MEASURED}")
    except FormatError as error:
        yield hint(MEASURED, MEASURED_UNREADABLE.say(problem=error))
        return
    own = {gpu.uuid: gpu for given in resolution.containers for gpu in given.gpus}
    if not own.keys() >= set(found.cards):
        yield hint(MEASURED, MEASURED_OTHERS.say(at=fitted(found.at)))
        return
    said = _said(found, own)
    if found.verdict is Verdict.AS_EXPECTED:
        yield holds(MEASURED, said)
    else:
        yield hint(MEASURED, MEASURED_WORSE.say(verdict=found.verdict, measured=said))
    yield from newer_nccl(found.nccl)


def newer_nccl(told: str | None) -> Iterator[Finding]:
    """Yields a hint if the NCCL in the pod is newer than all that is known of NCCL; none if it is not known."""
    try:
        release = Version.parse(told or "", source="version of NCCL")
    except FormatError:
        return
    if release > NEWEST_NCCL:
        yield hint(NCCL_RELEASE, NCCL_NEWER_THAN_FACTS.say(release=release, newest=NEWEST_NCCL))


def _said(found: Summary, own: Mapping[str, Gpu]) -> str:
    members = gpus([gpu for uuid, gpu in own.items() if uuid in found.cards])
    fast = f"{found.pairs - found.worse} of {found.pairs} ways are as fast as expected"
    said = [f"gpu-topology verify measured {members} at {fitted(found.at)}: {fast}"]
    if slowest := found.slowest:
        ends = f"{own[slowest.source].label} to {own[slowest.target].label}"
        said.append(f"the slowest is {ends}, {_of(slowest.measured_gbps, slowest.expected_gbps)}")
    if together := found.all_reduce:
        said.append(f"an all-reduce has {_of(together.busbw_gbps, together.expected_gbps)} (busbw)")
    return "; ".join(said)


def _of(gbps: float, expected: float | None) -> str:
    return f"{gbps:g} GB/s" if expected is None else f"{gbps:g} of {expected:g} GB/s"

"""What NCCL would make of a topology file, the one that ``NCCL_TOPO_FILE`` names.

NCCL does not validate: it refuses to start over small things, and takes large ones for something else without a word.
This check knows neither the machine nor the job. It supposes that any of the file's GPUs may be part of the job, and
that ``/sys`` may not show the devices, as in virtual machines.
"""

from collections.abc import Iterator

from webhook.topology.nccl.attributes import check_attributes
from webhook.topology.nccl.links import check_links, gpu_entries
from webhook.topology.nccl.parser import MAX_ELEMENTS, ROOT, Document, Element, parse
from webhook.topology.nccl.places import Place, below, is_gpu, kind_of, places
from webhook.topology.nccl.reader import Unreadable
from webhook.topology.nccl.report import Contents, Diagnostic, GpuEntry, Report, Severity, fails, in_order, quoted
from webhook.topology.nccl.structure import check_structure
from webhook.topology.nccl.values import PciKind
from webhook.topology.nccl.writer import ADVISED_ELEMENTS

__all__ = ["MAX_BYTES", "Contents", "Diagnostic", "GpuEntry", "Report", "Severity", "check"]

MAX_BYTES = 2**20
"""What a ConfigMap can hold; 255 elements with all that NCCL reads in them need a fifth of it."""


def check(text: bytes | str) -> Report:
    """What NCCL 2.30 makes of a topology file; any text gives a report.

    Args:
        text: All that is in the file.
    """
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > MAX_BYTES:
        return Report((_too_large(len(data)),))
    try:
        document = parse(data)
    except Unreadable as gave_up:
        return Report((gave_up.finding,))
    if not document.systems:
        return Report((_ignored(document),))
    every = places(document.systems[0])
    findings = [*_check_document(document), *check_structure(every), *check_links(every)]
    for place in every:
        findings += check_attributes(place)
    return Report(in_order(findings), _contents(document, every))


def _contents(document: Document, every: list[Place]) -> Contents:
    elements = [place.element for place in every]
    return Contents(
        elements=document.elements,
        cpus=tuple(element.get("numaid") or "" for element in elements if element.name == "cpu"),
        gpus=gpu_entries(every),
        nics=tuple(nic for place in every for nic in _nics(place)),
    )


def _nics(place: Place) -> Iterator[str]:
    if place.element.name == "pci" and not is_gpu(place.element) and kind_of(place.element) is PciKind.NIC:
        yield place.bus_id
    elif place.element.name == "net" and "pci" not in (element.name for element in place.above):
        yield place.element.get("name") or ""


def _check_document(document: Document) -> Iterator[Diagnostic]:
    yield from _check_size(document)
    yield from _check_skipped(document)
    for system in document.systems[1:]:
        yield _second_system(system)
    if document.single_quotes:
        yield Diagnostic(
            Severity.ADVICE,
            document.single_quotes,
            "the file",
            "expected double quotes, found single ones",
            "NCCL up to 2.26 looks only for double quotes and fails with ncclInternalError",
        )


def _check_size(document: Document) -> Iterator[Diagnostic]:
    if document.elements > ADVISED_ELEMENTS:
        message = f"expected at most {ADVISED_ELEMENTS} elements, found {document.elements}"
        consequence = f"NCCL adds NICs and what else it detects, and fails at more than {MAX_ELEMENTS}"
        yield Diagnostic(Severity.ADVICE, document.lines, "the file", message, consequence)
    if not document.systems[0].children:
        message = "expected cpu elements, found none"
        consequence = "NCCL detects everything itself, as without a file"
        yield Diagnostic(Severity.ADVICE, document.systems[0].line, ROOT, message, consequence)


def _check_skipped(document: Document) -> Iterator[Diagnostic]:
    for skipped in document.skipped:
        where = f"in {skipped.parent}" if skipped.parent else "beside system"
        message = f"expected an element that NCCL knows there, found {quoted(skipped.name)}"
        consequence = "NCCL skips it with everything in it"
        yield Diagnostic(Severity.MISREADS, skipped.line, where, message, consequence)
    more = document.skipped_count - len(document.skipped)
    if more:
        message = f"expected elements that NCCL knows, found {more} more that it does not"
        yield Diagnostic(Severity.MISREADS, document.skipped[-1].line, "behind it", message, "NCCL skips them")


def _second_system(system: Element) -> Diagnostic:
    message = "expected one system, found another"
    if any(is_gpu(element) for element in below(system)):
        words = fails("ncclTopoRankToIndex could not find rank")
        return Diagnostic(
            Severity.ABORTS, system.line, ROOT, message, f"NCCL uses the first. {words} for the GPUs in it"
        )
    return Diagnostic(Severity.MISREADS, system.line, ROOT, message, "NCCL uses the first")


def _ignored(document: Document) -> Diagnostic:
    found = f"element {quoted(document.skipped[0].name)}" if document.skipped else "no element"
    line = document.skipped[0].line if document.skipped else 1
    message = f'expected <system version="1">, found {found}'
    consequence = "NCCL ignores the file, with no more than an INFO line, and detects everything itself"
    return Diagnostic(Severity.MISREADS, line, "the file", message, consequence)


def _too_large(size: int) -> Diagnostic:
    message = f"expected at most {MAX_BYTES} bytes, found {size}"
    consequence = f"NCCL takes at most {MAX_ELEMENTS} elements, which need far less; nothing was looked at here"
    return Diagnostic(Severity.ABORTS, 1, "the file", message, consequence)

"""The written form of a BandwidthReport: JSON, ``gpu.topology/v1``."""

from typing import Any

import msgspec

from webhook.hardware.measurement.report import BandwidthReport
from webhook.words import names
from webhook.words.errors import FormatError, ManifestError
from webhook.words.nesting import decode
from webhook.words.shape import shape_problem

API_VERSION = names.PREFIX + "v1"
KIND = "BandwidthReport"
MAX_BYTES = 16 * 1024 * 1024
_DIGITS = 3
"""Decimals of numbers that are not whole; further digits are noise."""


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

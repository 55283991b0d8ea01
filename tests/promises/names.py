"""Every promised name that the code has now, one line each, such as ``label gpu.topology/injection``."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.cli.command import gpu_topology
from tests.docs.reference.settings import ENTRIES, SECTIONS
from tests.docs.test_annotations import CHOICES, keys, section
from tests.observe.exposed import EXPOSITIONS, family, metrics
from webhook.decisions.options import OPTION_NAMES
from webhook.objects.binding import BindReason
from webhook.programs.remap.verdict import ExitCode
from webhook.words import names
from webhook.words.outcome import Reason

NAMES = Path(__file__).with_name("names.txt")
STATE = Path(__file__).parents[2] / "examples" / "state"
IN_STATE = ("--state", str(STATE), "-o", "json")
FORMS = {
    "explain": ("explain", "ml-workloads/train", *IN_STATE),
    "analyze": ("analyze", *IN_STATE),
    "status": ("status", "-A", *IN_STATE),
    "message": ("message", "GT212", "-o", "json"),
}
"""Commands whose JSON is promised, with what prints an example of it."""


def found() -> set[str]:
    """The lines that hold of the code."""
    return {*_keys(), *_metrics(), *_outcomes(), *_settings(), *_forms()}


def promised() -> set[str]:
    """The lines of ``names.txt``."""
    return set(NAMES.read_text(encoding="utf-8").splitlines())


def members(value: Any, path: str = "") -> Iterator[str]:
    """The paths of the members of a JSON value, with ``[]`` for each entry of a list."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{path}.{name}"
            yield from members(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for entry in value:
            yield from members(entry, f"{path}[]")


def _keys() -> Iterator[str]:
    yield from (f"option {names.PREFIX}{name}" for name in (*OPTION_NAMES, f"{names.ENV_PREFIX}NAME"))
    yield from (f"value {names.PREFIX}{field.replace('_', '-')} {one}" for field, kind in CHOICES for one in kind)
    for heading, kind in {"Labels": "label", "What the programs write": "annotation"}.items():
        yield from (f"{kind} {key}" for row in section(heading) for key in keys(row[0]))


def _metrics() -> Iterator[str]:
    for program in EXPOSITIONS:
        for one in map(family, metrics(program)):
            yield " ".join(("metric", one.name, one.kind, *sorted(one.labels)))


def _outcomes() -> Iterator[str]:
    yield from (f"exit-code remap {code.value} {code.name}" for code in ExitCode)
    yield from (f"reason pod {reason}" for reason in Reason)
    yield from (f"reason binding {reason}" for reason in BindReason)


def _settings() -> Iterator[str]:
    for table, kind in {**SECTIONS, **{name: kind for name, (kind, _) in ENTRIES.items()}}.items():
        yield from (f"setting {table}.{field.encode_name}" for field in msgspec.structs.fields(kind))


def _forms() -> Iterator[str]:
    for command, arguments in FORMS.items():
        yield from (f"json {command} {path}" for path in members(json.loads(gpu_topology(*arguments).out)))

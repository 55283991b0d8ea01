"""What inputs are made of: the words that the project reads, what seeds have where, and values that break programs."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.pods import SHARED_MEMORY
from webhook.decisions.options import OPTION_NAMES
from webhook.words import names
from webhook.words.choices import Carrier, Colocate, Nvls, OnViolation, P2pLevel, Policy, Profile

KEPT = 24
"""Different values of one member that are remembered."""

DEEP, LONG, ENDLESS, TWICE = "@deep@", "@long@", "@endless@", "@twice@"
RAW = {
    json.dumps(DEEP): "[" * 3000 + "]" * 3000,
    json.dumps(LONG): "9" * 5000,
    json.dumps(ENDLESS): "1e999",
    json.dumps(TWICE): '{"name":"a","name":"b","value":1,"value":"2"}',
}
"""Strings that stand for JSON which cannot be written from values: they are replaced in the finished text."""

CHOICES: tuple[str, ...] = (*Profile, *Policy, *OnViolation, *Nvls, *P2pLevel, *Carrier, *Colocate)

HOSTILE_TEXTS: tuple[str, ...] = (
    "",
    " ",
    "\x00",
    "\x1b[2J",
    "\x85",
    "\u202etxt",
    "\u2028",
    "\U000e0001",
    "\ud800",
    "é",
    "\U0001f4a5",
    "٣",
    "a" * 300,
    "a" * 6000,
    "A" * 64,
    "../../etc",
    f"{SHARED_MEMORY}/../shm",
    f"{SHARED_MEMORY}/",
    "/run/gpu-topology",
    "~0~1/",
    "-",
    "'",
    '"]}',
    "$(NVIDIA_VISIBLE_DEVICES)",
    "$$",
    "%s{0}",
    "-1",
    "0",
    "1e400",
    "nan",
    "9" * 30,
    "9" * 5000,
    "1_000",
    "true",
    "false",
    "null",
    "all",
    "none",
    "void",
    "0,1",
    ";",
    ":",
    ",",
    ";" * 200,
    ":;" * 100,
    "GPU-",
    "GPU-1",
    "GPU-1[1-0]",
    "GPU-1,NVIDIA,1,100:;",
    "{}",
    "[]",
    "[[[[",
    "metadata.annotations['gpu.topology/visible-uuids']",
    "metadata.annotations['gpu.topology/cuda-visible-devices.0']",
    "metadata.annotations['hami.io/vgpu-devices-allocated']",
    "0.1.0 exclusive",
    "9.9.9 node-peers",
    DEEP,
    LONG,
    ENDLESS,
    TWICE,
)

HOSTILE_NUMBERS: tuple[int | float, ...] = (
    0,
    -1,
    1,
    2,
    8,
    64,
    255,
    256,
    2**31,
    2**53,
    2**53 + 1,
    2**63,
    2**64,
    10**40,
    0.5,
    -0.0,
    1e308,
)

HOSTILE_VALUES: tuple[Any, ...] = (None, True, False, [], {}, [None], [[]], {"": ""}, *HOSTILE_NUMBERS, *HOSTILE_TEXTS)


def our_keys() -> Iterator[str]:
    """Every name that the project spells, and every option as an annotation."""
    for value in vars(names).values():
        if isinstance(value, str) and value:
            yield value
    yield from names.OUTPUTS
    for name in (*OPTION_NAMES, "env.A", "env.NCCL_DEBUG", "env.NVIDIA_VISIBLE_DEVICES", "env.", "proflie"):
        yield names.PREFIX + name
    for prefix in names.OUTPUT_PREFIXES:
        yield from (prefix + "0", prefix + "NCCL_ALGO")


@dataclass
class Vocabulary:
    """What seeds have in which place; a place is called after the member that leads to it, an entry after its list."""

    members: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    """Of objects: what is called how, with values."""
    entries: dict[str, list[Any]] = field(default_factory=dict)
    """Of lists."""
    words: list[str] = field(default_factory=list)
    """Texts of our own, for keys and values."""

    @classmethod
    def of(cls, documents: Iterable[Any]) -> "Vocabulary":
        """All that ``documents`` have."""
        made = cls(words=sorted({*our_keys(), *CHOICES}))
        for document in documents:
            made._learn(document, "")
        return made

    def _learn(self, value: Any, place: str) -> None:
        if isinstance(value, dict):
            known = self.members.setdefault(place, {})
            for name, member in value.items():
                _remember(known.setdefault(name, []), member)
                self._learn(member, name)
        elif isinstance(value, list):
            for entry in value:
                _remember(self.entries.setdefault(place, []), entry)
                self._learn(entry, place)
        elif isinstance(value, str) and (inner := inner_document(value)) is not None:
            self._learn(inner, place)


def inner_document(text: str) -> Any:
    """The object or list that a text is the JSON of; ``None`` if it is something else."""
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _remember(values: list[Any], value: Any) -> None:
    if len(values) < KEPT and value not in values:
        values.append(value)

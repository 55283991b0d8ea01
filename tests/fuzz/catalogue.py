"""The targets by name, and how their inputs are bent."""

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from tests.fuzz.mutation import Chance, JsonMutator, TextMutator
from tests.fuzz.vocabulary import Vocabulary

NETWORK = ("review", "pod", "binding", "allocation", "node", "hami")
"""What comes over the network."""
NAMES = (*NETWORK, "smi", "configuration")
REGRESSIONS = Path(__file__).parent / "regressions"
"""Inputs that once broke a law, a folder for each target."""
LONGEST = 64 * 1024
"""Bytes of an input."""


class Mutator(Protocol):
    """Bends inputs."""

    def mutate(self, data: bytes, chance: Chance) -> bytes | None:
        """``data``, bent; ``None`` if it is not of the kind that is bent here."""

    def cross(self, data: bytes, other: bytes, chance: Chance) -> bytes | None:
        """``data`` with something of ``other``; ``None`` if nothing fits."""


@dataclass(frozen=True)
class Target:
    """A kind of input."""

    name: str
    check: Callable[[bytes], None]
    """Fails where a law is broken."""
    seeds: tuple[bytes, ...]
    mutator: Mutator


@cache
def find_target(name: str) -> Target:
    """The target of one of ``NAMES``. Its seeds take a second to collect."""
    module = importlib.import_module(f"tests.fuzz.targets.{name}")
    seeds = tuple(module.seeds())
    return Target(name, module.target, seeds, _mutator(seeds))


def regressions(name: str) -> list[Path]:
    """The inputs of a target that once broke a law."""
    return sorted(path for path in (REGRESSIONS / name).glob("*") if path.is_file())


def bent(target: Target, chance: Chance) -> Iterator[bytes]:
    """Inputs without end, each bent from a seed or from one that was bent before."""
    pool = list(target.seeds)
    while True:
        data = chance.choice(pool)
        if chance.random() < 0.9:
            made = target.mutator.mutate(data, chance)
        else:
            made = target.mutator.cross(data, chance.choice(pool), chance)
        if made is None or len(made) > LONGEST:
            continue
        if chance.random() < 0.1:
            pool.append(made)
        yield made


def _mutator(seeds: Sequence[bytes]) -> Mutator:
    documents = [document for document in map(_document, seeds) if document is not None]
    return JsonMutator(Vocabulary.of(documents)) if documents else TextMutator(seeds)


def _document(seed: bytes) -> object:
    try:
        return json.loads(seed)
    except ValueError:
        return None

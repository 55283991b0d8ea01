"""The targets by name, how their inputs are bent, and what was found: inputs that break a law."""

import hashlib
import importlib
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from tests.fuzz.mutation import Chance, bent_json, bent_lines, inner_document, seen_in

NAMES = ("review", "pod", "binding", "allocation", "node", "hami", "smi", "configuration")
REGRESSIONS = Path(__file__).parent / "regressions"
"""Inputs that once broke a law, a folder for each target."""
LONGEST = 64 * 1024
"""Bytes of an input."""


@dataclass(frozen=True)
class Target:
    """A kind of input."""

    name: str
    check: Callable[[bytes], None]
    """Fails where a law is broken."""
    seeds: tuple[bytes, ...]
    bend: Callable[[bytes, Chance], bytes | None]
    """Changes an input; ``None`` if it is not of the kind that is bent here."""


@cache
def find_target(name: str) -> Target:
    """The target of one of ``NAMES``. Its seeds take a second to collect."""
    module = importlib.import_module(f"tests.fuzz.targets.{name}")
    seeds = tuple(module.seeds())
    texts = [seed.decode(errors="replace") for seed in seeds]
    documents = [found for text in texts if (found := inner_document(text)) is not None]
    if documents:
        return Target(name, module.target, seeds, partial(bent_json, seen=seen_in(documents)))
    lines = sorted({line for text in texts for line in text.splitlines()})
    return Target(name, module.target, seeds, partial(bent_lines, known=lines))


def regressions(name: str) -> list[Path]:
    """The inputs of a target that once broke a law."""
    return sorted(path for path in (REGRESSIONS / name).glob("*") if path.is_file())


def bent(target: Target, chance: Chance) -> Iterator[bytes]:
    """Inputs without end, each bent from a seed or from one that was bent before."""
    pool = list(target.seeds)
    while True:
        made = target.bend(chance.choice(pool), chance)
        if made is None or len(made) > LONGEST:
            continue
        if chance.random() < 0.1:
            pool.append(made)
        yield made


@dataclass
class Finds:
    """Writes the shortest input of each way to fail, with its traceback, into a folder that is there."""

    folder: Path
    _shortest: dict[str, int] = field(default_factory=dict)

    def add(self, data: bytes, error: BaseException) -> Path | None:
        """Where the input was written; ``None`` if a shorter one that fails in the same place is there."""
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
        if len(data) >= self._shortest.get(place, len(data) + 1):
            return None
        self._shortest[place] = len(data)
        path = self.folder / f"find-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
        path.write_bytes(data)
        report = "".join(traceback.format_exception(error))
        path.with_suffix(".txt").write_text(f"{place}\n\n{report}", encoding="utf-8", errors="backslashreplace")
        return path

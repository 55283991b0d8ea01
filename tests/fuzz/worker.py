"""The process that fuzzes: ``python -m tests.fuzz.worker TARGET FOLDER [OPTION OF LIBFUZZER]...``.

The only module that needs atheris. libFuzzer ends the process it runs in, so it is not that of the command.
"""

import sys
import time
from pathlib import Path
from random import Random

import atheris

from tests.fuzz.finds import Finds

STATUS_SECONDS = 10.0
BYTES_SHARE = 8
"""One in so many inputs is bent as bytes, without regard to what it means."""


def main(name: str, folder: Path, options: list[str]) -> None:
    """Fuzz; does not return."""
    with atheris.instrument_imports(include=["webhook"]):
        from tests.fuzz.catalogue import find_target  # noqa: PLC0415 - imports are what is instrumented

        target = find_target(name)
    finds = Finds(folder / "finds")
    runs, said = 0, time.monotonic()

    def check(data: bytes) -> None:
        nonlocal runs, said
        runs += 1
        try:
            target.check(data)
        except Exception as error:  # whatever breaks a law is a find, and the run goes on
            path = finds.add(data, error)
            if path:
                print(f"FIND {path}: {error!r:.300}", flush=True)
        if time.monotonic() - said > STATUS_SECONDS:
            said = time.monotonic()
            print(f"STATUS {runs}", flush=True)

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        chance = Random(seed)
        made = target.mutator.mutate(data, chance) if chance.randrange(BYTES_SHARE) else None
        return made if made and len(made) <= longest else bytes(atheris.Mutate(data, longest))

    def cross(data: bytes, other: bytes, longest: int, seed: int) -> bytes:
        made = target.mutator.cross(data, other, Random(seed))
        return made if made and len(made) <= longest else data

    seeds = folder / "seeds"
    seeds.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (seeds / f"{number:04}").write_bytes(seed)
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    arguments = [sys.argv[0], f"-artifact_prefix={folder}/finds/", *options, str(corpus), str(seeds)]
    atheris.Setup(arguments, check, custom_mutator=mutate, custom_crossover=cross)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])

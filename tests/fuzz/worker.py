"""The process that fuzzes: ``python -m tests.fuzz.worker TARGET FOLDER [OPTION OF LIBFUZZER]...``.

The only module that needs atheris. libFuzzer ends the process it runs in, so it is not that of the command.
"""

import sys
from pathlib import Path
from random import Random

import atheris

BYTES_SHARE = 8
"""One in so many inputs is bent as bytes, without regard to what it means."""


def main(name: str, folder: Path, options: list[str]) -> None:
    """Fuzz; does not return."""
    with atheris.instrument_imports(include=["webhook"]):
        from tests.fuzz.catalogue import Finds, find_target  # noqa: PLC0415 - imports are what is instrumented

        target = find_target(name)
    finds = Finds(folder / "finds")

    def check(data: bytes) -> None:
        try:
            target.check(data)
        except Exception as error:  # whatever breaks a law is a find, and the run goes on
            path = finds.add(data, error)
            if path:
                print(f"FIND {path}: {error!r:.300}", flush=True)

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        chance = Random(seed)
        made = target.bend(data, chance) if chance.randrange(BYTES_SHARE) else None
        return made if made and len(made) <= longest else bytes(atheris.Mutate(data, longest))

    for place in ("finds", "seeds", "corpus"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (folder / "seeds" / f"{number:04}").write_bytes(seed)
    places = [str(folder / "corpus"), str(folder / "seeds")]
    atheris.Setup([sys.argv[0], f"-artifact_prefix={folder}/finds/", *options, *places], check, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])

"""What the code takes for granted of other projects: a TOML file for each subject, with a section for each fact.

A judge is a test that runs the program or library of the other project and fails if that does otherwise. If a judge
fails with a new version, mend the modules of its fact, and note the versions. A source that a comment or docstring of
the code cites needs an entry that names this module.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

HERE = Path(__file__).parent
SUBJECTS = tuple(sorted(path.stem for path in HERE.glob("*.toml")))


class Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that another project does and that our code relies on."""

    says: str
    """The fact, without a full stop."""
    versions: str = ""
    """The versions for which it was read or run, of the project that the subject names unless another one is named."""
    nccl: tuple[str, ...] = ()
    """In place of versions: facts of ``nccl_facts.py``, which has the releases."""
    sources: tuple[str, ...]
    """Where it was read. What a comment of the code cites stands here in the same words."""
    code: tuple[str, ...]
    """The modules that rely on it."""
    judges: tuple[str, ...] = ()
    """Tests that run the other project and fail if it does otherwise, as pytest names them: ``PATH::NAME``."""
    no_judge: str = ""
    """Why there is none."""


def read(subject: str) -> Mapping[str, Fact]:
    """The facts of one subject, by their names.

    Raises:
        msgspec.DecodeError: the file is no such table.
    """
    return msgspec.toml.decode((HERE / f"{subject}.toml").read_bytes(), type=dict[str, Fact])


def every_fact() -> Iterator[tuple[str, Fact]]:
    """All facts, with their names, such as ``hami.whole-cards``."""
    for subject in SUBJECTS:
        for name, fact in read(subject).items():
            yield f"{subject}.{name}", fact

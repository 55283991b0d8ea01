"""The table of facts: a TOML file for each subject, with a section for each fact."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tests.hardware.topology.nccl_facts import FACTS as NCCL_FACTS
from tests.hardware.topology.nccl_facts import SOURCES, ReadBy

HERE = Path(__file__).parent
SUBJECTS = {
    "hami": "HAMi",
    "kubernetes": "Kubernetes",
    "claims": "Resource claims and their drivers",
    "nvidia": "NVIDIA's driver, CUDA and container toolkit",
    "nccl": "NCCL",
    "others": "Other schedulers, operators and programs",
}
"""The titles of the files, in the order of the page."""


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

    @property
    def read_for(self) -> str:
        """The versions for which the page says that the fact was read."""
        if not self.nccl:
            return self.versions
        found = [each for each in NCCL_FACTS if each.what in self.nccl]
        read = [release for release in SOURCES if any(release in each.releases for each in found)]
        run = {release for each in found if each.judge is not ReadBy.SOURCE for release in each.releases}
        parts = (
            [f"source of {read[0]} to {read[-1]}" if read[0] != read[-1] else f"source of {read[0]}"] if read else []
        )
        return "; ".join([*parts, *([f"libraries {', '.join(sorted(run))}"] if run else [])])


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

"""The platforms, and how pip and krew call them."""

from typing import NamedTuple

PYTHONS = ("3.11", "3.12", "3.13")
"""Each has compiled libraries of its own in an archive."""


class Platform(NamedTuple):
    """One archive."""

    os: str
    """As Go and krew call it."""
    arch: str
    tags: tuple[str, ...]
    """Of wheels that run there, as pip takes them: packaging.python.org, "Platform compatibility tags"."""

    @property
    def name(self) -> str:
        """Such as ``linux-amd64``."""
        return f"{self.os}-{self.arch}"


def _linux(machine: str) -> tuple[str, ...]:
    return tuple(f"manylinux{glibc}_{machine}" for glibc in ("2014", "_2_17", "_2_28"))


PLATFORMS = (
    Platform("linux", "amd64", _linux("x86_64")),
    Platform("linux", "arm64", _linux("aarch64")),
    Platform("darwin", "arm64", ("macosx_11_0_arm64",)),
)
"""Without ``darwin-amd64``: cryptography has no wheels for it since version 49."""

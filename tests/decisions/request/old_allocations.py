"""Allocations that one version of HAMi wrote, as another reads them: facts of HAMi, each with the version that says so.

``test_hami_counting.py`` holds our reading against this table; ``tests/control_plane/hami/test_upgrade.py`` has the
schedulers of HAMi judge it.
"""

from dataclasses import dataclass

from tests.decisions.allocation.pods import spelled
from webhook.decisions.request.hami_counting import Member
from webhook.words.version import Version

JUDGES = {
    "2.9.0": Version(2, 9),
    "2.10.0": Version(2, 10),
    "next": Version(2, 11),
}
"""The versions that read. ``next`` is a build of HAMi with pull request 2723, which is merged and in no release yet."""


@dataclass(frozen=True)
class Old:
    """A running pod, and the GPUs that each version counts once the init containers of the pod are done.

    Attributes:
        name: The pod, and the version that wrote its allocation.
        allocation: As in ``spelled``.
        containers: All containers, init containers first.
        counted: The letters of the GPUs that each of ``JUDGES`` counts.
    """

    name: str
    allocation: str
    containers: tuple[Member, ...]
    counted: tuple[str, str, str]

    @property
    def value(self) -> str:
        """The annotation's value."""
        return spelled(self.allocation)

    @property
    def letters(self) -> str:
        """The letters of all its GPUs."""
        return "".join(sorted(set(self.allocation) & set("ABC")))


def ends(name: str = "setup", gpus: int = 0) -> Member:
    """An ordinary init container."""
    return Member(name, gpus, is_init=True)


def stays(name: str = "gpu-topology-remap", gpus: int = 0) -> Member:
    """A restartable init container."""
    return Member(name, gpus, is_init=True, is_restartable=True)


def apps(*gpus: int) -> tuple[Member, ...]:
    """The containers app-0, app-1 and so on, which ask for so many GPUs."""
    return tuple(Member(f"app-{place}", count) for place, count in enumerate(gpus))


REMAP = ends("gpu-topology-remap")
MESH = ends("istio-init")

OLD = (
    Old("2.8, no init container", "A:B:;", apps(2), ("AB", "AB", "AB")),
    Old("2.8, our init container", "A:B:;", (REMAP, *apps(2)), ("AB", "", "")),
    Old("2.8, our init container and two containers", "A:;B:;", (REMAP, *apps(1, 1)), ("AB", "B", "B")),
    Old("2.8, our init container and one without a GPU", ";A:B:;", (REMAP, *apps(0, 2)), ("AB", "AB", "AB")),
    Old("2.8, our sidecar", "A:B:;", (stays(), *apps(2)), ("AB", "AB", "AB")),
    Old("2.5, our init container, filler for another", "A:B:;,,0,0:;", (REMAP, *apps(2, 0)), ("AB", "", "")),
    Old("2.9, our init container", ";A:B:;", (REMAP, *apps(2)), ("AB", "AB", "AB")),
    Old("2.9, init container with a GPU", "A:;B:C:;", (ends(gpus=1), *apps(2)), ("ABC", "BC", "BC")),
    Old("2.9, sidecar with a GPU", "A:;B:;", (stays("warm", 1), *apps(1)), ("AB", "AB", "AB")),
    Old("2.10.0, our sidecar first", "A:B:;", (stays(), ends(), *apps(2)), ("AB", "AB", "AB")),
    Old("2.10.0, our sidecar behind", "A:B:;", (MESH, stays(), *apps(2)), ("AB", "AB", "")),
    Old("2.10.0, our sidecar behind a sidecar", "A:B:;", (stays("mesh"), stays(), *apps(2)), ("AB", "AB", "AB")),
    Old("2.10.0, our sidecar first, two containers", "A:;B:;", (stays(), ends(), *apps(1, 1)), ("AB", "AB", "A")),
    Old("fixed 2.10, our sidecar behind", ";;A:B:;", (MESH, stays(), *apps(2)), ("AB", "AB", "AB")),
)

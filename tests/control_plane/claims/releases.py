"""The releases of Kubernetes at which claims are tested."""

from collections.abc import Callable
from pathlib import Path

from tests.control_plane.claims.cluster import ClaimPrograms
from tests.control_plane.control_plane import Binaries
from tests.go_programs.build import GoProgram
from tests.go_programs.catalogue import ETCD, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER, NEXT_KUBERNETES

RELEASES = {"1.36": (KUBE_APISERVER, KUBE_SCHEDULER, KUBE_CONTROLLER_MANAGER), "1.37": NEXT_KUBERNETES}


def programs_of(release: str, get: Callable[[GoProgram], Path]) -> ClaimPrograms:
    """The programs of this release, each from ``get``."""
    api_server, scheduler, controllers = (get(one) for one in RELEASES[release])
    return ClaimPrograms(Binaries(get(ETCD), api_server), controllers, scheduler)

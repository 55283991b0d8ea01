"""Clusters in which claims give GPUs, by the release of Kubernetes, each started when the first test wants it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.chart.helm import Helm
from tests.compatibility.noting import Note
from tests.control_plane.claims.bindings import OBSERVED
from tests.control_plane.claims.cluster import ClaimsCluster, ClaimsNamespace, running_claims_cluster
from tests.control_plane.claims.product import ClaimsProduct, running_product
from tests.control_plane.claims.releases import programs_of
from tests.control_plane.on_demand import started_on_demand
from tests.go_programs.left_out import GetProgram
from tests.nvml.stub import nvml_library

__all__ = ["nvml_library"]

ClaimsClusters: TypeAlias = Callable[[str], ClaimsCluster]


@pytest.fixture(scope="session")
def claims_clusters(go_program: GetProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClaimsClusters]:
    """Gives the cluster with this release of Kubernetes; ``+NAME`` behind it asks for another one of the same."""

    @contextmanager
    def start(kind: str) -> Iterator[ClaimsCluster]:
        programs = programs_of(kind.partition("+")[0], go_program)
        directory = tmp_path_factory.mktemp("claims")
        try:
            with running_claims_cluster(programs, directory) as cluster:
                yield cluster
        finally:
            shutil.rmtree(directory)

    with started_on_demand(start) as get:
        yield get


@pytest.fixture(params=["1.36", pytest.param("1.37", marks=pytest.mark.long)])
def kubernetes(request: pytest.FixtureRequest) -> str:
    """Each release of Kubernetes, unless the test names one; ``make test`` has the one of the other tests."""
    release: str = request.param
    return release


@pytest.fixture
def claims_cluster(claims_clusters: ClaimsClusters, kubernetes: str) -> ClaimsCluster:
    return claims_clusters(kubernetes)


@pytest.fixture
def observed(claims_cluster: ClaimsCluster) -> Iterator[ClaimsNamespace]:
    """A namespace whose Bindings the observer sees."""
    with claims_cluster.namespace(OBSERVED) as place:
        yield place


@pytest.fixture(scope="session")
def claims_products(
    claims_clusters: ClaimsClusters, nvml_library: Path, helm: Helm
) -> Iterator[Callable[[str], ClaimsProduct]]:
    """Gives our side, with a cluster of its own, at this release of Kubernetes."""

    def start(release: str) -> AbstractContextManager[ClaimsProduct]:
        return running_product(claims_clusters(f"{release}+product"), nvml_library, helm)

    with started_on_demand(start) as get:
        yield get


@pytest.fixture
def claims_product(
    claims_products: Callable[[str], ClaimsProduct], kubernetes: str, note_pod: Note
) -> Iterator[ClaimsProduct]:
    """The webhook with ``claims.enabled``, asked at the Bindings of the plain kube-scheduler."""
    product = claims_products(kubernetes)
    product.cluster.seen.clear()
    yield product
    release = product.cluster.control_plane.version()
    judges = (f"kube-apiserver {release}", f"kube-scheduler {release}")
    for pod in product.cluster.seen:
        note_pod(pod, hami="-", kubernetes=release, strategy="claims", judges=judges)

"""Clusters in which claims give GPUs, by the release of Kubernetes, each started when the first test wants it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.chart.helm import Helm
from tests.cluster.claims.bindings import OBSERVED
from tests.cluster.claims.cluster import ClaimsCluster, ClaimsNamespace, running_claims_cluster
from tests.cluster.claims.product import ClaimsProduct, running_product
from tests.cluster.claims.releases import RELEASES, programs_of
from tests.cluster.processes import NotRunningError
from tests.nvml.stub import nvml_library
from tests.programs.left_out import GetProgram

__all__ = ["nvml_library"]

ClaimsClusters: TypeAlias = Callable[[str], ClaimsCluster]


@pytest.fixture(scope="session")
def claims_clusters(go_program: GetProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClaimsClusters]:
    """Gives the cluster with this release of Kubernetes; ``+NAME`` behind it asks for another one of the same."""
    started: dict[str, ClaimsCluster] = {}

    def get(kind: str) -> ClaimsCluster:
        if kind not in started:
            programs = programs_of(kind.partition("+")[0], go_program)
            directory = tmp_path_factory.mktemp("claims")
            stack.callback(shutil.rmtree, directory)
            try:
                started[kind] = stack.enter_context(running_claims_cluster(programs, directory))
            except NotRunningError as error:
                pytest.fail(str(error), pytrace=False)
        return started[kind]

    with ExitStack() as stack:
        yield get


@pytest.fixture(params=list(RELEASES))
def kubernetes(request: pytest.FixtureRequest) -> str:
    """Each release of Kubernetes, unless the test names one."""
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
    started: dict[str, ClaimsProduct] = {}

    def get(release: str) -> ClaimsProduct:
        if release not in started:
            try:
                cluster = claims_clusters(f"{release}+product")
                started[release] = stack.enter_context(running_product(cluster, nvml_library, helm))
            except NotRunningError as error:
                pytest.fail(str(error), pytrace=False)
        return started[release]

    with ExitStack() as stack:
        yield get


@pytest.fixture
def claims_product(claims_products: Callable[[str], ClaimsProduct], kubernetes: str) -> ClaimsProduct:
    """The webhook with ``claims.enabled``, asked at the Bindings of the plain kube-scheduler."""
    return claims_products(kubernetes)

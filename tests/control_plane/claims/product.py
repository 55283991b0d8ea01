"""Our side in a cluster whose GPUs are given by claims: nodes with agents, two replicas, asked at each Binding."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chart.helm import Helm
from tests.chart.registration import registration_at
from tests.control_plane.claims.cluster import ClaimsCluster, ClaimsNamespace
from tests.control_plane.claims.drivers import nvidia_slices
from tests.control_plane.hami.cluster import BRIDGED, H20, bridged_machine, topologies
from tests.control_plane.hami.team import named
from tests.control_plane.installation import CONFIGURATION, Installation, installed, registered
from tests.nvml import machines

ENABLED = {"claims": {"enabled": True}}
OPTED_IN = named({"injection": "enabled"})
"""Labels of a namespace that has opted in."""


@dataclass(frozen=True)
class ClaimsProduct:
    """A cluster and our side.

    Attributes:
        cluster: With NVIDIA's slices of the nodes ``h20-node-1`` (eight H20 on NVSwitches) and ``a100-bridged`` (four
            A100, of which bridges join 0 to 1 and 2 to 3).
        ours: The running webhook, which is registered.
    """

    cluster: ClaimsCluster
    ours: Installation

    @contextmanager
    def team(self, **labels: str) -> Iterator[ClaimsNamespace]:
        """A namespace that has opted in, with more labels such as ``allow_host_ipc="true"``; emptied at the end."""
        with self.cluster.namespace(OPTED_IN | named(labels)) as place:
            self.ours.learn()
            yield place


@contextmanager
def running_product(
    cluster: ClaimsCluster, nvml: Path, helm: Helm, settings: Mapping[str, Any] | None = None
) -> Iterator[ClaimsProduct]:
    """Nodes, slices, agents, replicas, the registration.

    Args:
        cluster: Without nodes so far.
        nvml: Directory of the stand-in for NVML.
        helm: Renders the chart.
        settings: Sections of the configuration of the servers; by default claims are switched on.
    """
    directory = cluster.directory / "ours"
    directory.mkdir()
    with ExitStack() as stack:
        for topology in topologies():
            stack.enter_context(cluster.node(topology.node, nvidia_slices(topology)))
        played = {H20: machines.h20(), BRIDGED: bridged_machine()}
        ours = stack.enter_context(
            installed(
                cluster.control_plane,
                directory,
                played,
                nvml,
                hami="2.10.0",
                settings=ENABLED if settings is None else settings,
            )
        )
        stack.enter_context(registered(ours, asked_about_claims(ours, helm)))
        yield ClaimsProduct(cluster, ours)


def asked_about_claims(ours: Installation, helm: Helm) -> dict[str, Any]:
    """The registration of the chart with ``claims.enabled``."""
    chart = registration_at(ours.url, ours.authority, helm.objects("claims"))
    return {"metadata": {"name": CONFIGURATION}, "webhooks": chart["webhooks"]}

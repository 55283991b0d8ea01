"""What the agent does with a machine holds over every NVML, that of the stub and those of others."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.nvml.any_driver import AnyMachine
from tests.programs.agent.looks import look, node_object, stored
from webhook.hardware.discovery.machine import discover
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.metrics import families
from webhook.programs.agent.publication import Memory, Object, Observed, Publication, PublishOptions, decide, sound
from webhook.programs.agent.status import Status
from webhook.programs.exposition import Exposition

pytestmark = pytest.mark.any_driver

AT = datetime(2026, 11, 20, 18, 30, 15, 250, tzinfo=UTC)
OPTIONS = PublishOptions(namespace="gpu-topology")
CORDON = replace(OPTIONS, cordon=True)


@pytest.fixture
def seen(any_machine: AnyMachine) -> NodeTopology:
    return discover(node="node-1", root=any_machine.root)


def decided(now: NodeTopology, config_map: Object | None = None, *, options: PublishOptions = OPTIONS) -> Publication:
    node = node_object(now.node, labels={"gpu.topology/nvlink": look(now).health.state.value})
    return decide(Observed(node=node, config_map=config_map), look(now), memory=Memory(), options=options, at=AT)


def published(topology: NodeTopology) -> Object:
    manifest = decided(topology).config_map
    assert manifest is not None
    return stored(manifest)


def test_readers_find_the_topology_and_the_file_of_nccl(seen: NodeTopology) -> None:
    data = published(seen)["data"]
    assert parse_topology(data["topology.json"], source="test") == seen
    assert data["nccl-topo.xml"].startswith('<system version="1">')


def test_what_the_cluster_has_already_is_not_written(seen: NodeTopology) -> None:
    again = decided(seen, published(seen))
    assert (again.node, again.config_map) == (None, None)


def test_what_readers_would_refuse_is_not_published(seen: NodeTopology) -> None:
    assert sound(seen) == seen


def test_a_node_that_stays_as_it_is_has_no_events(seen: NodeTopology) -> None:
    assert decided(seen, published(seen)).events == ()


def test_a_first_look_tells_of_what_is_wrong_and_of_nothing_else(any_machine: AnyMachine, seen: NodeTopology) -> None:
    told = {str(event["reason"]) for event in decided(seen).events}
    assert ("GpuLost" in told) == bool(any_machine.lost)
    assert told == set() or look(seen).health.state == "degraded"


def test_a_cordon_lists_the_cards_that_are_ill(seen: NodeTopology) -> None:
    change = decided(seen, published(seen), options=CORDON).node
    cordoned = str(change.patch).count("GPU-") if change else 0
    assert bool(cordoned) == bool(look(seen).health.ailing)


def test_metrics_count_every_gpu_in_one_state(any_machine: AnyMachine, seen: NodeTopology) -> None:
    status = Status(confirmed_at=0.0, look=look(seen))
    _, body = Exposition(lambda: families(status, node="n1", now=100.0, version="9.8.7")).answer("")
    lines = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#"))
    counts = {name: float(value) for name, value in lines.items() if name.startswith("gpu_topology_gpus{")}
    assert sum(counts.values()) == len(seen.gpus) + len(seen.lost)
    assert counts['gpu_topology_gpus{node="n1",state="lost"}'] == len(any_machine.lost)
    up = {name: float(value) for name, value in lines.items() if 'state="up"' in name}
    assert sum(up.values()) == sum(gpu.active_links for gpu in seen.gpus)

"""The metrics say what the node is like now, and what the agent has done."""

from dataclasses import replace

import pytest

from tests.hardware.topology.machines import bent, hgx_h100, l40s, with_switch_links, without
from tests.programs.agent.looks import driver_away, look
from webhook.hardware.topology.model import NVSWITCH, Fabric, MigMode, NodeTopology, NvLink
from webhook.programs.agent.metrics import families
from webhook.programs.agent.status import Count, Status, TaintStatus
from webhook.programs.exposition import Exposition

A_PAIR = replace(hgx_h100(), gpus=hgx_h100().gpus[:2])
EVERYTHING = """\
# HELP gpu_topology_agent_build_info 1; the label names the version of the agent.
# TYPE gpu_topology_agent_build_info gauge
gpu_topology_agent_build_info{node="n1",version="9.8.7"} 1.0
# HELP gpu_topology_nvlink_links NVLinks of a GPU. Some products never use all of their links.
# TYPE gpu_topology_nvlink_links gauge
gpu_topology_nvlink_links{gpu="0",node="n1",state="up",uuid="GPU-00000000-0000-0000-0000-000000000000"} 18.0
gpu_topology_nvlink_links{gpu="0",node="n1",state="down",uuid="GPU-00000000-0000-0000-0000-000000000000"} 0.0
gpu_topology_nvlink_links{gpu="1",node="n1",state="up",uuid="GPU-00000000-0000-0000-0000-000000000001"} 12.0
gpu_topology_nvlink_links{gpu="1",node="n1",state="down",uuid="GPU-00000000-0000-0000-0000-000000000001"} 6.0
# HELP gpu_topology_nvlink_capacity_bytes_per_second Bytes per second that the working NVLinks of a GPU carry in one \
direction.
# TYPE gpu_topology_nvlink_capacity_bytes_per_second gauge
gpu_topology_nvlink_capacity_bytes_per_second{gpu="0",node="n1",uuid="GPU-00000000-0000-0000-0000-000000000000"} \
3.708e+11
gpu_topology_nvlink_capacity_bytes_per_second{gpu="1",node="n1",uuid="GPU-00000000-0000-0000-0000-000000000001"} \
2.472e+11
# HELP gpu_topology_gpus GPUs of the node by state.
# TYPE gpu_topology_gpus gauge
gpu_topology_gpus{node="n1",state="healthy"} 1.0
gpu_topology_gpus{node="n1",state="degraded"} 1.0
gpu_topology_gpus{node="n1",state="mig"} 0.0
gpu_topology_gpus{node="n1",state="lost"} 0.0
# HELP gpu_topology_health 1 for the state of the node's NVLinks.
# TYPE gpu_topology_health gauge
gpu_topology_health{node="n1",state="healthy"} 0.0
gpu_topology_health{node="n1",state="degraded"} 1.0
gpu_topology_health{node="n1",state="absent"} 0.0
# HELP gpu_topology_fabric_state 1 for the state of the NVLink fabric, if it has one.
# TYPE gpu_topology_fabric_state gauge
gpu_topology_fabric_state{node="n1",state="completed"} 1.0
gpu_topology_fabric_state{node="n1",state="in-progress"} 0.0
gpu_topology_fabric_state{node="n1",state="not-started"} 0.0
gpu_topology_fabric_state{node="n1",state="unsupported"} 0.0
# HELP gpu_topology_publication_age_seconds Seconds since the cluster was last known to have the newest topology, \
or since the start.
# TYPE gpu_topology_publication_age_seconds gauge
gpu_topology_publication_age_seconds{node="n1"} 75.0
# HELP gpu_topology_publication_in_step Whether the last publication worked.
# TYPE gpu_topology_publication_in_step gauge
gpu_topology_publication_in_step{node="n1"} 1.0
# HELP gpu_topology_discovery_seconds Seconds that the last discovery took.
# TYPE gpu_topology_discovery_seconds gauge
gpu_topology_discovery_seconds{node="n1"} 0.25
# HELP gpu_topology_discoveries_total Discoveries by what became of them.
# TYPE gpu_topology_discoveries_total counter
gpu_topology_discoveries_total{node="n1",outcome="complete"} 2.0
gpu_topology_discoveries_total{node="n1",outcome="problem"} 0.0
gpu_topology_discoveries_total{node="n1",outcome="bug"} 0.0
# HELP gpu_topology_agent_errors_total Rounds of the agent that failed, by what was wrong.
# TYPE gpu_topology_agent_errors_total counter
gpu_topology_agent_errors_total{kind="api",node="n1"} 1.0
gpu_topology_agent_errors_total{kind="configuration",node="n1"} 0.0
gpu_topology_agent_errors_total{kind="bug",node="n1"} 0.0
# HELP gpu_topology_agent_api_errors_total Requests of the agent to the API server that failed.
# TYPE gpu_topology_agent_api_errors_total counter
gpu_topology_agent_api_errors_total{kind="away",node="n1"} 1.0
gpu_topology_agent_api_errors_total{kind="conflict",node="n1"} 0.0
gpu_topology_agent_api_errors_total{kind="denied",node="n1"} 0.0
gpu_topology_agent_api_errors_total{kind="malformed",node="n1"} 0.0
gpu_topology_agent_api_errors_total{kind="not-found",node="n1"} 0.0
gpu_topology_agent_api_errors_total{kind="refused",node="n1"} 0.0
# HELP gpu_topology_agent_writes_total Objects that the agent wrote to the cluster.
# TYPE gpu_topology_agent_writes_total counter
gpu_topology_agent_writes_total{node="n1",object="configmap"} 1.0
gpu_topology_agent_writes_total{node="n1",object="node"} 0.0
gpu_topology_agent_writes_total{node="n1",object="event"} 0.0
gpu_topology_agent_writes_total{node="n1",object="lease"} 2.0
gpu_topology_agent_writes_total{node="n1",object="devicetaintrule"} 0.0
"""


def text(status: Status, now: float = 100.0) -> str:
    """The exposition, as Prometheus gets it."""
    _, body = Exposition(lambda: families(status, node="n1", now=now, version="9.8.7")).answer("")
    return body.decode()


def of(topology: NodeTopology) -> list[str]:
    return text(Status(confirmed_at=0.0, look=look(topology))).splitlines()


def test_everything_there_is() -> None:
    status = Status(
        confirmed_at=25.0,
        look=look(with_switch_links(A_PAIR, 1, 12)),
        discovery_seconds=0.25,
        in_step=True,
    )
    for what, word in (
        (Count.DISCOVERIES, "complete"),
        (Count.DISCOVERIES, "complete"),
        (Count.ERRORS, "api"),
        (Count.API_ERRORS, "away"),
        (Count.WRITES, "configmap"),
        (Count.WRITES, "lease"),
        (Count.WRITES, "lease"),
    ):
        status = status.counted(what, word)
    assert text(status) == EVERYTHING


def test_before_the_first_discovery_nothing_is_said_of_the_node() -> None:
    lines = text(Status(confirmed_at=40.0)).splitlines()
    assert 'gpu_topology_publication_age_seconds{node="n1"} 60.0' in lines
    assert 'gpu_topology_publication_in_step{node="n1"} 0.0' in lines
    assert not [line for line in lines if line.startswith(("gpu_topology_health", "gpu_topology_nvlink"))]


def test_a_lost_gpu_is_counted_and_its_links_are_gone() -> None:
    lines = of(without(hgx_h100(), 2))
    assert 'gpu_topology_gpus{node="n1",state="lost"} 1.0' in lines
    assert 'gpu_topology_gpus{node="n1",state="healthy"} 7.0' in lines
    assert not [line for line in lines if 'gpu="2"' in line]


def test_what_links_carry_is_absent_where_it_is_not_known_or_nothing() -> None:
    topologies = (
        without(hgx_h100(), 2),
        bent(hgx_h100(), 2, mig_mode=MigMode.ENABLED),
        bent(hgx_h100(), 2, nvlinks=(), links_problem="unknown error"),
        bent(hgx_h100(), 2, nvlinks=(NvLink(target=NVSWITCH, count=18, active=0),)),
    )
    for topology in topologies:
        lines = [line for line in of(topology) if line.startswith("gpu_topology_nvlink_capacity_bytes_per_second{")]
        assert len(lines) == 7
        assert not [line for line in lines if 'gpu="2"' in line]
    assert not [line for line in of(l40s()) if line.startswith("gpu_topology_nvlink_capacity_bytes_per_second{")]


def test_gpus_in_mig_mode_are_counted_apart() -> None:
    assert 'gpu_topology_gpus{node="n1",state="mig"} 1.0' in of(bent(hgx_h100(), 2, mig_mode=MigMode.ENABLED))


@pytest.mark.parametrize(
    "topology", [driver_away(hgx_h100()), NodeTopology(node="cpu-only", source="nvml")], ids=["no driver", "no GPU"]
)
def test_a_node_without_gpus_has_zeros(topology: NodeTopology) -> None:
    lines = of(topology)
    assert 'gpu_topology_gpus{node="n1",state="healthy"} 0.0' in lines
    assert 'gpu_topology_health{node="n1",state="absent"} 1.0' in lines


def test_a_machine_without_a_fabric_is_in_none_of_its_states() -> None:
    lines = [line for line in of(l40s()) if line.startswith("gpu_topology_fabric_state{")]
    assert len(lines) == 4
    assert all(line.endswith(" 0.0") for line in lines)


def test_a_state_of_the_fabric_that_is_new_to_us_is_shown() -> None:
    lines = of(replace(hgx_h100(), fabric=Fabric(state="dreaming")))
    assert 'gpu_topology_fabric_state{node="n1",state="dreaming"} 1.0' in lines


def test_the_age_is_never_negative() -> None:
    assert 'gpu_topology_publication_age_seconds{node="n1"} 0.0' in text(Status(confirmed_at=100.5)).splitlines()


def test_taints_are_told_of_where_they_are_asked_for() -> None:
    def lines(status: Status) -> set[str]:
        return {line for line in text(status).splitlines() if line.startswith("gpu_topology_device_taint")}

    status = Status(confirmed_at=0.0)
    assert lines(status) == set()
    assert lines(replace(status, taints=TaintStatus(served=True, rules=2, unmatched=1))) == {
        'gpu_topology_device_taint_rules_served{node="n1"} 1.0',
        'gpu_topology_device_taint_rules{node="n1"} 2.0',
        'gpu_topology_device_taints_missing{node="n1"} 1.0',
    }
    assert 'gpu_topology_device_taint_rules_served{node="n1"} 0.0' in lines(
        replace(status, taints=TaintStatus(served=False))
    )

"""Jobs of several nodes on nodes that NVLink joins: docs/nccl.md, NVLink between nodes."""

from dataclasses import replace
from typing import Any

import pytest

from tests.decisions.bind.test_binding import decide, injected, to
from tests.hardware.topology import machines
from tests.pods import container
from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.hardware.topology.model import Fabric, NodeTopology
from webhook.objects.binding import BindOutcome
from webhook.words.outcome import Kind

TRAY = machines.gb200_tray()
JOB = {"name": "MASTER_ADDR", "value": "train-0"}
NODE_PEERS = {"gpu.topology/profile": "node-peers"}
NO_CHANNEL = (
    "GT361: the pod has no IMEX channel of its own: where the node gives it none, NCCL fails on the NVLink fabric"
)
NETWORK_ONLY = "GT360: NCCL_CUMEM_ENABLE=0: between nodes the job uses the network, not the NVLink fabric"


def bound(
    *env: dict[str, Any],
    annotations: dict[str, str] | None = None,
    topology: NodeTopology = TRAY,
    mounts: tuple[dict[str, str], ...] = (),
    **spec: Any,
) -> BindOutcome:
    uuids = [gpu.uuid for gpu in topology.gpus[:2]]
    allocated = "".join(f"{uuid},NVIDIA,189471,100:" for uuid in uuids) + ";"
    one = container(env=list(env), volumeMounts=list(mounts))
    pod = injected(one, allocated=allocated, node=topology.node, annotations=annotations or {}, **spec)
    return decide(pod, to(topology.node), Sources(published=KnownNode(topology, origin=Origin.AGENT)))


def test_a_job_of_several_nodes_without_a_channel_is_warned_and_bound() -> None:
    outcome = bound(JOB)
    assert (outcome.kind, outcome.warnings) == (Kind.PATCH, [NO_CHANNEL])
    assert outcome.event is not None
    assert (outcome.event.reason, outcome.event.note) == (
        "FabricNotUsed",
        NO_CHANNEL.replace("GT361: ", "GT361: pod team-a/train on node gb200-tray: "),
    )


def test_peers_of_a_job_of_several_nodes_are_told_that_they_use_the_network() -> None:
    assert bound(JOB, annotations=NODE_PEERS).warnings == [NETWORK_ONLY]
    in_host_network = NODE_PEERS | {"gpu.topology/host-network": "true"}
    assert bound(JOB, annotations=in_host_network).warnings == [NO_CHANNEL]


def test_a_job_of_one_node_needs_no_channel() -> None:
    outcome = bound()
    assert (outcome.warnings, outcome.event) == ([], None)
    assert bound(annotations=NODE_PEERS).warnings == []


FORCED = {"name": "NCCL_MNNVL_ENABLE", "value": "1"}
CUMEM_OFF = {"name": "NCCL_CUMEM_ENABLE", "value": "0"}
CHANNEL = {"name": "NVIDIA_IMEX_CHANNELS", "value": "0"}


def test_a_job_of_one_node_that_looks_for_the_fabric_all_the_same_is_warned_and_bound() -> None:
    outcome = bound(FORCED)
    assert (outcome.kind, [warning[:5] for warning in outcome.warnings]) == (Kind.PATCH, ["GT364"])
    assert outcome.event is not None
    assert (outcome.event.reason, outcome.event.note[:5]) == ("FabricNotUsed", "GT364")
    assert bound(FORCED, JOB).warnings == [NO_CHANNEL]  # of several nodes it looks anyway


@pytest.mark.parametrize("env", [(), (CHANNEL,), (CUMEM_OFF,)])
@pytest.mark.parametrize("value", ["0", "1", "2"])
def test_only_with_1_and_cumem_and_without_a_channel_does_a_job_of_one_node_need_one(
    value: str, env: tuple[dict[str, str], ...]
) -> None:
    outcome = bound(FORCED | {"value": value}, *env)
    assert [warning[:5] for warning in outcome.warnings] == (["GT364"] if value == "1" and not env else [])


def test_a_job_of_one_node_may_claim_its_channel_and_needs_none_where_there_is_no_fabric() -> None:
    claims = [{"name": "imex", "resourceClaimTemplateName": "train-channel"}]
    assert bound(FORCED, resourceClaims=claims).warnings == []
    assert bound(FORCED, topology=replace(TRAY, fabric=None)).warnings == []


@pytest.mark.parametrize(
    "fabric",
    [
        None,
        Fabric(state="unsupported"),
        Fabric(state="completed", status="success"),  # one node with NVSwitches: no cluster
        Fabric(state="in-progress", cluster_uuid="5e3a91c4-70d2-4b6f-8f15-c2a9d4e60b37"),
    ],
)
def test_there_is_nothing_to_warn_of_where_nvlink_ends_at_the_node(fabric: Fabric | None) -> None:
    assert bound(JOB, topology=replace(TRAY, fabric=fabric)).warnings == []


@pytest.mark.parametrize(
    "given",
    [
        {"env": {"name": "NVIDIA_IMEX_CHANNELS", "value": "0"}},
        {"env": {"name": "NCCL_MNNVL_ENABLE", "value": "0"}},
        {"mounts": ({"name": "imex", "mountPath": "/var/run/nvidia-container-devices/imex/0"},)},
        {"spec": {"resourceClaims": [{"name": "imex", "resourceClaimTemplateName": "train-channel"}]}},
    ],
)
def test_whoever_sees_to_it_is_not_warned(given: dict[str, Any]) -> None:
    more = [given["env"]] if "env" in given else []
    assert bound(JOB, *more, mounts=given.get("mounts", ()), **given.get("spec", {})).warnings == []

"""What follows from an allocation, on machines that are known, with values typed by hand."""

from dataclasses import replace

import pytest

from tests.hardware.topology import machines
from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.resolve.demand import GpuContainer, GpuDemand, NcclTables, Requirements
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.decisions.resolve.resolve import Resolution, Unresolved, UnresolvedError, resolve
from webhook.hardware.topology.model import Fabric, LostGpu, MigMode, NodeTopology
from webhook.words.choices import Policy, Profile

U = machines.H20_UUIDS


def known(topology: NodeTopology) -> KnownNode:
    return KnownNode(topology, origin=Origin.AGENT)


def given(*segments: list[str]) -> Allocation:
    return Allocation(segments=tuple(tuple(Device(uuid=uuid, cores=100) for uuid in segment) for segment in segments))


def wanted(
    profile: Profile,
    *counts: int,
    requirements: Requirements = Requirements(),  # noqa: B008 - it is frozen
    nccl: NcclTables = NcclTables(),  # noqa: B008 - as above
) -> GpuDemand:
    containers = tuple(
        GpuContainer(
            name=f"c{k}",
            count=count,
            visible_key=f"gpu.topology/cuda-visible-devices.{k}" if profile.shares_gpus else "",
        )
        for k, count in enumerate(counts)
    )
    return GpuDemand(profile=profile, containers=containers, requirements=requirements, nccl=nccl)


def indices(resolution: Resolution) -> list[str]:
    return [given.cuda_visible_devices for given in resolution.containers]


def test_a_privileged_container_of_pod_peers_counts_all_gpus_of_its_node() -> None:
    demand = wanted(Profile.POD_PEERS, 2, 1)
    first, second = demand.containers
    demand = replace(demand, containers=(replace(first, sees_node=True), second))
    found = resolve(demand, given([U[6], U[4]], [U[5]]), known(machines.h20()))
    assert found.visible_uuids == f"{U[4]},{U[5]},{U[6]}"
    assert indices(found) == ["4,6", "1"]


@pytest.mark.parametrize(("profile", "expected"), [(Profile.NODE_PEERS, "4,6"), (Profile.EXCLUSIVE, "")])
def test_in_the_other_profiles_a_privileged_container_gets_what_others_get(profile: Profile, expected: str) -> None:
    demand = wanted(profile, 2)
    demand = replace(demand, containers=(replace(demand.containers[0], sees_node=True),))
    assert indices(resolve(demand, given([U[6], U[4]]), known(machines.h20()))) == [expected]


def test_exclusive_containers_need_no_indices() -> None:
    found = resolve(wanted(Profile.EXCLUSIVE, 2), given([U[5], U[2]]), known(machines.h20()))
    assert indices(found) == [""]
    assert [gpu.index for gpu in found.gpus] == [2, 5]


def test_the_order_is_that_of_bus_ids_not_of_nvml_indices() -> None:
    node = machines.h20()
    first, second = node.gpus[0], node.gpus[1]
    swapped = replace(
        node,
        gpus=(
            replace(first, pci_bus_id=second.pci_bus_id),
            replace(second, pci_bus_id=first.pci_bus_id),
            *node.gpus[2:],
        ),
    )
    found = resolve(wanted(Profile.NODE_PEERS, 1), given([U[0]]), known(swapped))
    assert indices(found) == ["1"]


def test_without_bus_ids_the_order_is_that_of_nvml() -> None:
    node = machines.h20()
    bare = replace(node, gpus=tuple(replace(gpu, pci_bus_id="", parent="", root="") for gpu in node.gpus))
    assert indices(resolve(wanted(Profile.NODE_PEERS, 2), given([U[7], U[4]]), known(bare))) == ["4,7"]


def test_a_lost_gpu_does_not_count_in_the_order_of_cuda() -> None:
    found = resolve(wanted(Profile.NODE_PEERS, 1), given([U[5]]), known(machines.without(machines.h20(), 2)))
    assert indices(found) == ["4"]


def test_an_allocated_gpu_that_is_lost_is_named() -> None:
    node = machines.without(machines.h20(), 2)
    lost = replace(node, lost=(LostGpu(index=2, problem="GPU is lost", uuid=U[2]),))
    with pytest.raises(UnresolvedError, match=f"{U[2]} of node h20-node-1 is GPU2, which cannot be reached: GPU is"):
        resolve(wanted(Profile.EXCLUSIVE, 1), given([U[2]]), known(lost))


def test_a_gpu_that_the_node_does_not_list_is_named() -> None:
    text = "GPU-ffff was allocated, but is none of the 8 GPUs that node h20-node-1 lists"
    with pytest.raises(UnresolvedError, match=text) as info:
        resolve(wanted(Profile.EXCLUSIVE, 1), given(["GPU-ffff"]), known(machines.h20()))
    assert info.value.reason is Unresolved.GPU_UNKNOWN
    assert not any(uuid in str(info.value) for uuid in U)


def test_gpus_may_be_named_by_minor_numbers() -> None:
    allocation = Allocation(segments=((Device(minor=4), Device(minor=1)),), of_pod=True)
    found = resolve(wanted(Profile.POD_PEERS, 1, 1), allocation, known(machines.h20()))
    assert found.visible_uuids == f"{U[1]},{U[4]}"
    assert indices(found) == ["1", "0"]


@pytest.mark.parametrize(
    ("allocation", "reason", "text"),
    [
        (Allocation(), Unresolved.NO_ALLOCATION, "has given the pod no GPU"),
        (given([U[0]]), Unresolved.BAD_ALLOCATION, "the pod's GPU allocation: expected"),
        (given([U[0], U[1]], [U[2]]), Unresolved.BAD_ALLOCATION, "the pod's GPU allocation: expected"),
        (
            Allocation(segments=((Device(uuid=U[0], mig="1-0"), Device(uuid=U[0], mig="1-1")),)),
            Unresolved.MIG_ALLOCATION,
            r"\[1-0\] is a MIG instance",
        ),
    ],
)
def test_what_cannot_be_resolved_says_why(allocation: Allocation, reason: Unresolved, text: str) -> None:
    with pytest.raises(UnresolvedError, match=text) as info:
        resolve(wanted(Profile.EXCLUSIVE, 2), allocation, known(machines.h20()))
    assert info.value.reason is reason


def test_a_gpu_in_mig_mode_has_no_nvlink() -> None:
    node = machines.bent(machines.h20(), 1, mig_mode=MigMode.ENABLED)
    with pytest.raises(UnresolvedError, match=f"GPU1 {U[1]} of node h20-node-1 is in MIG mode") as info:
        resolve(wanted(Profile.EXCLUSIVE, 2), given([U[0], U[1]]), known(node))
    assert info.value.reason is Unresolved.MIG_ALLOCATION


def test_node_peers_cannot_count_on_a_node_with_a_gpu_in_mig_mode() -> None:
    node = machines.bent(machines.h20(), 7, mig_mode=MigMode.ENABLED)
    with pytest.raises(UnresolvedError, match="node h20-node-1 has GPUs in MIG mode"):
        resolve(wanted(Profile.NODE_PEERS, 2), given([U[0], U[1]]), known(node))
    assert indices(resolve(wanted(Profile.POD_PEERS, 2), given([U[0], U[1]]), known(node))) == ["0,1"]


NVLINK_VALUES = (("NCCL_P2P_LEVEL", "auto"), ("NCCL_NVLS_ENABLE", "0"))


@pytest.mark.parametrize(
    ("node", "cards", "link", "bandwidth", "values"),
    [
        # 18 links of 20.6 GB/s
        (machines.h20(), [0, 1], "NVSwitch", 370.8, (("NCCL_P2P_LEVEL", "auto"), ("NCCL_NVLS_ENABLE", "2"))),
        # 12 links of 20 GB/s, and no NVLS before compute capability 9.0
        (machines.hgx_a100(), [0, 7], "NVSwitch", 240.0, NVLINK_VALUES),
        # 2 links of 20 GB/s
        (machines.dgx1_v100(), [0, 3], "NVLink", 40.0, NVLINK_VALUES),
        # GPU0 and GPU5 have no link: NCCL goes through a third GPU, or PCIe
        (
            machines.dgx1_v100(),
            [0, 1, 5],
            "NVLink-partial",
            None,
            (("NCCL_P2P_LEVEL", "auto"), ("NCCL_NVLS_ENABLE", "0")),
        ),
        (machines.l40s(), [0, 7], "SYS", None, (("NCCL_P2P_LEVEL", "auto"), ("NCCL_NVLS_ENABLE", "0"))),
    ],
)
def test_link_class_and_nccl_values_follow_from_the_links(
    node: NodeTopology, cards: list[int], link: str, bandwidth: float | None, values: tuple[tuple[str, str], ...]
) -> None:
    uuids = [node.gpus[card].uuid for card in cards]
    found = resolve(wanted(Profile.EXCLUSIVE, len(cards)), given(uuids), known(node))
    assert found.worst.link == link
    assert found.nccl == values
    if bandwidth is not None:
        assert found.worst.bandwidth == pytest.approx(bandwidth)


def test_the_tables_of_the_configuration_are_looked_up_by_link_class() -> None:
    tables = NcclTables(
        variables={
            "NCCL_P2P_LEVEL": {"pcie": "PHB"},
            "NCCL_ALGO": {"nvswitch": "NVLS", "nvlink": "Ring", "pcie": "Tree"},
        }
    )
    h20, cube, l40s = machines.h20(), machines.dgx1_v100(), machines.l40s()
    for node, cards, expected in (
        (h20, [0, 1], ("auto", "NVLS")),
        (cube, [0, 3], ("auto", "Ring")),
        (cube, [0, 1, 5], ("PHB", "Tree")),
        (l40s, [0, 1], ("PHB", "Tree")),
    ):
        pod = wanted(Profile.EXCLUSIVE, len(cards), nccl=tables)
        values = dict(resolve(pod, given([node.gpus[card].uuid for card in cards]), known(node)).nccl)
        assert (values["NCCL_P2P_LEVEL"], values["NCCL_ALGO"]) == expected


def test_the_variables_of_a_pod_fit_the_worst_of_its_containers() -> None:
    node = machines.dgx1_v100()
    uuids = [gpu.uuid for gpu in node.gpus]
    pod = wanted(Profile.EXCLUSIVE, 2, 2, 1, nccl=NcclTables(variables={"NCCL_P2P_LEVEL": {"pcie": "SYS"}}))
    found = resolve(pod, given([uuids[0], uuids[3]], [uuids[1], uuids[4]], [uuids[2]]), known(node))
    assert [gpu_set.link for gpu_set in found.sets] == ["NVLink", found.worst.link, "single"]
    assert not found.worst.every_pair_has_nvlink
    assert dict(found.nccl)["NCCL_P2P_LEVEL"] == "SYS"


def test_node_peers_get_values_that_hold_for_peers_that_come_later() -> None:
    node = machines.dgx1_v100()
    pair = given([node.gpus[0].uuid, node.gpus[3].uuid])
    tables = NcclTables(variables={"NCCL_P2P_LEVEL": {"pcie": "SYS"}})
    found = resolve(wanted(Profile.NODE_PEERS, 2, nccl=tables), pair, known(node))
    assert found.worst.link == "NVLink"
    assert dict(found.nccl)["NCCL_P2P_LEVEL"] == "SYS"


def test_no_level_is_written_that_takes_peer_to_peer_from_nccl() -> None:
    for node in (machines.h20(), machines.dgx1_v100(), machines.l40s(), machines.a100_pcie_bridged()):
        for cards in ([0, 1], [0, 2], [0, 1, 2, 3]):
            uuids = [node.gpus[card].uuid for card in cards]
            found = resolve(wanted(Profile.EXCLUSIVE, len(cards)), given(uuids), known(node))
            assert dict(found.nccl)["NCCL_P2P_LEVEL"] == "auto"


@pytest.mark.parametrize(
    ("profile", "host_network", "expected"),
    [
        (Profile.NODE_PEERS, False, "0"),
        (Profile.NODE_PEERS, True, "2"),
        (Profile.POD_PEERS, False, "2"),
        (Profile.EXCLUSIVE, False, "2"),
    ],
)
def test_nvls_is_off_where_pods_of_a_node_have_network_namespaces_of_their_own(
    profile: Profile, host_network: bool, expected: str
) -> None:
    pod = replace(wanted(profile, 2), host_network=host_network)
    assert dict(resolve(pod, given([U[0], U[1]]), known(machines.h20())).nccl)["NCCL_NVLS_ENABLE"] == expected


@pytest.mark.parametrize(
    ("fabric", "expected"),
    [
        (Fabric(state="completed", status="success"), "2"),
        (Fabric(state="unsupported"), "0"),
        (Fabric(state="in-progress"), "0"),
        (Fabric(state="completed", status="unknown error"), "0"),
    ],
)
def test_nvls_is_off_where_the_fabric_is_not_ready(fabric: Fabric, expected: str) -> None:
    node = replace(machines.h20(), fabric=fabric)
    for tables, value in (
        (NcclTables(), expected),
        (NcclTables(variables={"NCCL_NVLS_ENABLE": {"nvswitch": "1"}}), "1"),
    ):
        pod = wanted(Profile.EXCLUSIVE, 2, nccl=tables)
        assert dict(resolve(pod, given([U[0], U[1]]), known(node)).nccl)["NCCL_NVLS_ENABLE"] == value


def test_the_table_says_nvls_except_where_it_cannot_be_set_up() -> None:
    tables = NcclTables(variables={"NCCL_NVLS_ENABLE": {"nvswitch": "1"}})
    for profile, expected in ((Profile.EXCLUSIVE, "1"), (Profile.NODE_PEERS, "0")):
        pod = wanted(profile, 2, nccl=tables)
        assert dict(resolve(pod, given([U[0], U[1]]), known(machines.h20())).nccl)["NCCL_NVLS_ENABLE"] == expected
    l40s = machines.l40s()
    pod = wanted(Profile.EXCLUSIVE, 2, nccl=tables)
    found = resolve(pod, given([l40s.gpus[0].uuid, l40s.gpus[1].uuid]), known(l40s))
    assert dict(found.nccl)["NCCL_NVLS_ENABLE"] == "0"


def test_a_variable_of_some_link_classes_goes_into_the_file_of_those_alone() -> None:
    tables = NcclTables(
        variables={
            "NCCL_PROTO": {"nvlink": "LL,LL128", "pcie": "Simple"},
            "NCCL_ALGO": {"nvswitch": "Tree", "nvlink": "Ring", "pcie": "Ring"},
            "NCCL_SHM_USE_CUDA_MEMCPY": {"pcie": "1"},
        }
    )
    for node, expected in (
        (machines.h20(), ()),
        (machines.l40s(), (("NCCL_PROTO", "Simple"), ("NCCL_SHM_USE_CUDA_MEMCPY", "1"))),
    ):
        uuids = [node.gpus[0].uuid, node.gpus[1].uuid]
        found = resolve(wanted(Profile.EXCLUSIVE, 2, nccl=tables), given(uuids), known(node))
        assert found.nccl_file == expected
        assert [name for name, _ in found.nccl] == ["NCCL_P2P_LEVEL", "NCCL_NVLS_ENABLE", "NCCL_ALGO"]


def test_a_single_gpu_beside_switches_gets_the_values_of_its_kind() -> None:
    found = resolve(wanted(Profile.EXCLUSIVE, 1), given([U[0]]), known(machines.h20()))
    assert found.worst.link == "single"
    assert found.nccl == (("NCCL_P2P_LEVEL", "auto"), ("NCCL_NVLS_ENABLE", "2"))


def test_requirements_are_judged_on_every_pair() -> None:
    node = machines.dgx1_v100()
    three = given([node.gpus[card].uuid for card in (0, 1, 5)])
    both = Requirements(nvlink=True, min_bandwidth=30)
    found = resolve(wanted(Profile.EXCLUSIVE, 3, requirements=both), three, known(node))
    assert [text.split(":")[0] for text in found.unmet] == ["require-nvlink", "min-bandwidth 30"]
    assert "GPU0 and GPU5 have" in found.unmet[0]
    pair = given([node.gpus[0].uuid, node.gpus[3].uuid])
    assert resolve(wanted(Profile.EXCLUSIVE, 2, requirements=both), pair, known(node)).unmet == ()
    exactly = Requirements(min_bandwidth=40)
    assert resolve(wanted(Profile.EXCLUSIVE, 2, requirements=exactly), pair, known(node)).unmet == ()
    more = Requirements(min_bandwidth=40.1)
    assert resolve(wanted(Profile.EXCLUSIVE, 2, requirements=more), pair, known(node)).unmet != ()


def on_dgx1(*cards: int, policy: Policy, nvlink: bool = False) -> Resolution:
    """One container with these GPUs of a DGX-1 of two NUMA nodes, four GPUs on each."""
    node = machines.dgx1_v100()
    requirements = Requirements(nvlink=nvlink, policy=policy)
    wish = wanted(Profile.EXCLUSIVE, len(cards), requirements=requirements)
    return resolve(wish, given([node.gpus[card].uuid for card in cards]), known(node))


def test_the_policy_nvlink_requires_nvlink_between_every_pair() -> None:
    apart = on_dgx1(0, 5, policy=Policy.NVLINK)
    assert apart.unmet == ("policy nvlink: GPU0 and GPU5 have 6.0 GB/s (SYS), the link class is SYS",)
    joined = on_dgx1(0, 3, policy=Policy.NVLINK)
    assert (joined.requires, joined.unmet, joined.undecided) == (True, (), "")


def test_what_two_options_require_is_said_once() -> None:
    (said,) = on_dgx1(0, 5, policy=Policy.NVLINK, nvlink=True).unmet
    assert said.startswith("require-nvlink: ")


def test_the_policy_single_numa_requires_one_numa_node() -> None:
    apart = on_dgx1(0, 4, policy=Policy.SINGLE_NUMA)
    assert apart.unmet == ("policy single-numa: GPU0 is on NUMA node 0, GPU4 on NUMA node 1",)
    together = on_dgx1(0, 1, 2, 3, policy=Policy.SINGLE_NUMA)
    assert (together.requires, together.unmet, together.undecided) == (True, (), "")


@pytest.mark.parametrize("policy", [Policy.BEST_EFFORT, Policy.SPREAD])
def test_the_other_policies_require_nothing(policy: Policy) -> None:
    found = on_dgx1(0, 5, policy=policy)
    assert (found.requires, found.unmet, found.undecided) == (False, (), "")


def on_numa_nodes(*numbers: int | None, source: str = "nvml", of_others: int | None = None) -> Resolution:
    """Policy single-numa for the first GPUs of a node; ``of_others``: the NUMA node of the rest."""
    base = machines.dgx1_v100()
    wish = wanted(Profile.EXCLUSIVE, len(numbers), requirements=Requirements(policy=Policy.SINGLE_NUMA))
    places = (*numbers, *[of_others] * (len(base.gpus) - len(numbers)))
    gpus = tuple(replace(gpu, numa_node=place) for gpu, place in zip(base.gpus, places, strict=True))
    node = KnownNode(replace(base, gpus=gpus, source=source), origin=Origin.AGENT)
    return resolve(wish, given([gpu.uuid for gpu in gpus[: len(numbers)]]), node)


def test_unknown_numa_nodes_are_not_taken_for_one() -> None:
    found = on_numa_nodes(0, None)
    assert found.unmet == ()
    assert found.undecided == "the NUMA node of GPU1 of node dgx1-v100 is not known"
    assert found.doubt == ""


def test_two_numa_nodes_are_too_many_whatever_the_third_is() -> None:
    found = on_numa_nodes(0, None, 1)
    assert found.unmet == ("policy single-numa: GPU0 is on NUMA node 0, GPU2 on NUMA node 1",)


def test_hami_writes_numa_node_0_where_it_knows_none() -> None:
    assert on_numa_nodes(0, 0, source="hami", of_others=0).undecided == (
        "the NUMA node of GPU0 GPU1 of node dgx1-v100 is not known"
    )
    assert on_numa_nodes(0, 0, source="hami", of_others=1).undecided == ""
    assert on_numa_nodes(0, 0, of_others=0).undecided == ""


def test_unknown_links_do_not_matter_to_the_policy_single_numa() -> None:
    node = machines.bent(machines.dgx1_v100(), 1, nvlinks=(), links_problem="Unknown Error")
    pair = given([gpu.uuid for gpu in node.gpus[1:3]])
    for policy, undecided in ((Policy.SINGLE_NUMA, False), (Policy.NVLINK, True)):
        wish = wanted(Profile.EXCLUSIVE, 2, requirements=Requirements(policy=policy))
        found = resolve(wish, pair, known(node))
        assert bool(found.undecided) is undecided
        assert found.unmet == ()


def test_a_single_gpu_meets_every_requirement() -> None:
    both = Requirements(nvlink=True, min_bandwidth=1e6)
    assert resolve(wanted(Profile.EXCLUSIVE, 1, requirements=both), given([U[0]]), known(machines.h20())).unmet == ()


def test_peers_of_the_group_count_for_the_requirements_of_node_peers_only() -> None:
    node = machines.dgx1_v100()
    uuids = [gpu.uuid for gpu in node.gpus]
    required = Requirements(nvlink=True)
    pair, peers = given([uuids[0], uuids[3]]), [Device(uuid=uuids[5])]
    alone = resolve(wanted(Profile.NODE_PEERS, 2, requirements=required), pair, known(node))
    assert alone.unmet == ()
    grouped = resolve(wanted(Profile.NODE_PEERS, 2, requirements=required), pair, known(node), peers=peers)
    assert grouped.unmet
    assert indices(grouped) == ["0,3"]
    within = resolve(wanted(Profile.POD_PEERS, 2, requirements=required), pair, known(node), peers=peers)
    assert within.unmet == ()


def test_containers_that_are_left_out_take_their_segment_and_nothing_else() -> None:
    containers = (
        GpuContainer(name="slice", count=1, selected=False),
        GpuContainer(name="train", count=2),
    )
    pod = GpuDemand(profile=Profile.EXCLUSIVE, containers=containers)
    found = resolve(pod, given([U[4]], [U[1], U[0]]), known(machines.h20()))
    assert [(container.container.name, [gpu.index for gpu in container.gpus]) for container in found.containers] == [
        ("train", [0, 1])
    ]
    assert found.visible_uuids == f"{U[0]},{U[1]}"

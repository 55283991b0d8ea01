"""What is true, what is false, and what the program says about it: docs/injection.md, section 12."""

from dataclasses import replace

import pytest

from tests.hardware.topology.machines import a100_pcie_bridged, bent, h20, uuid, with_switch_links, without
from tests.programs.remap.pods import (
    DECODE,
    EXCLUSIVE,
    H20,
    MISSING,
    NARROW,
    NO_DRIVER,
    NODE_PEERS,
    NOT_BOUND,
    POD_PEERS,
    PREFILL,
    allocated,
    judged,
)
from webhook.decisions.resolve.node import Origin
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import MigMode, NodeTopology
from webhook.programs.remap.verdict import ExitCode, Verdict

TOOLKIT = (
    "does the nvidia-container-toolkit of this node let unprivileged containers ask for GPUs "
    "(accept-nvidia-visible-devices-envvar-when-unprivileged)?"
)
BRIDGED = {
    "GPU_TOPOLOGY_PROFILE": "exclusive",
    "GPU_TOPOLOGY_CONTAINERS": "train:2:",
    "GPU_TOPOLOGY_REQUIRE_NVLINK": "true",
    "GPU_TOPOLOGY_NODE_NAME": "a100-pcie",
    "GPU_TOPOLOGY_ALLOCATION": allocated((uuid(0), uuid(2))),
    "GPU_TOPOLOGY_NODE_TOPOLOGY": format_topology(a100_pcie_bridged()),
}
UNLINKED = "require-nvlink: GPU0 and GPU2 have 10.0 GB/s (SYS), the link class is SYS"


def ended(verdict: Verdict) -> tuple[int, str]:
    return int(verdict.code), verdict.reason


@pytest.mark.parametrize("variables", [POD_PEERS, NODE_PEERS, EXCLUSIVE], ids=["pod-peers", "node-peers", "exclusive"])
def test_a_pod_that_was_told_the_truth_passes_without_a_warning(variables: dict[str, str]) -> None:
    verdict = judged(variables)
    assert ended(verdict) == (0, "ok: the 4 GPUs of this pod are those it was given")
    assert verdict.warnings == ()
    assert [finding.state for finding in verdict.findings] == ["ok"] * len(verdict.findings)


def test_what_the_pod_has_is_reckoned_anew_and_not_believed() -> None:
    resolution = judged(NODE_PEERS).resolution
    assert resolution is not None
    assert [given.cuda_visible_devices for given in resolution.containers] == ["0,1", "4,6"]
    assert [given.container.name for given in resolution.containers] == ["prefill", "decode"]
    assert resolution.node.origin is Origin.NVML


def test_a_single_gpu_is_one() -> None:
    verdict = judged(EXCLUSIVE, CONTAINERS="train:1:", ALLOCATION=allocated([H20[5]]))
    assert ended(verdict) == (0, "ok: the GPU of this pod is the one that it was given")


def test_another_gpu_of_the_node_stops_the_pod_with_both_gpus_named() -> None:
    verdict = judged(NODE_PEERS, ALLOCATION=allocated((H20[5], H20[0]), DECODE))
    assert ended(verdict) == (
        12,
        (
            "CUDA_VISIBLE_DEVICES of container prefill is 0,1: 1 is GPU1 GPU-4695a002-ab2d-092d-6db9-44e9ae3cb5a6, "
            "but HAMi allocated GPU5 GPU-1c7e92d4-3fa8-5b06-8e41-6d20c9b7f35a"
        ),
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("0", "GPU1 GPU-4695a002-ab2d-092d-6db9-44e9ae3cb5a6, which HAMi allocated, is missing"),
        ("0,1,7", "7 is GPU7 GPU-5af40c3e-917b-d82c-f6a5-b1e8372d0946, which HAMi did not allocate"),
        ("1,0", "these are its GPUs, but not in the order of their PCI bus ids, 0,1"),
        ("00,1", "these are its GPUs, but the value should read 0,1"),
        ("1,1", ("1 stands there twice, and HAMi allocated GPU0 GPU-b0c5b618-67d0-f464-9905-e1fd41226305, "
                "GPU1 GPU-4695a002-ab2d-092d-6db9-44e9ae3cb5a6: 0,1")),
        ("0,8", "it sees 8 GPUs, so 8 is none of them"),
        ("0,99999999999999999999", '"99999999999999999999" is no number'),
        ("0,-1", '"-1" is no number'),
        ("0,", '"" is no number'),
    ],
)  # fmt: skip
def test_only_the_very_value_is_true(value: str, why: str) -> None:
    verdict = judged(NODE_PEERS, CUDA_VISIBLE_DEVICES_0=value)
    assert ended(verdict) == (12, f"CUDA_VISIBLE_DEVICES of container prefill is {value}: {why}")


@pytest.mark.parametrize("value", ["0, 1", "GPU-b0c5b618,GPU-4695a002", "\u0660,1", "0\n1", "all"])
def test_a_value_that_is_no_list_of_numbers_is_quoted(value: str) -> None:
    verdict = judged(NODE_PEERS, CUDA_VISIBLE_DEVICES_0=value)
    assert verdict.code is ExitCode.OTHER_GPUS
    assert verdict.reason.startswith('CUDA_VISIBLE_DEVICES of container prefill is "')
    assert verdict.reason.endswith('" is no number')
    assert "\n" not in verdict.reason


VISIBLE = "annotation gpu.topology/visible-uuids, from which NVIDIA_VISIBLE_DEVICES comes"


@pytest.mark.parametrize(
    ("uuids", "why"),
    [
        (
            (H20[0], H20[1], H20[4], H20[7]),
            ("it lists GPU7 GPU-5af40c3e-917b-d82c-f6a5-b1e8372d0946, but HAMi allocated "
            "GPU6 GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8"),
        ),
        (
            (*H20[:2], H20[4], H20[6], "GPU-elsewhere"),
            'it lists "GPU-elsewhere" (no GPU of this node), which HAMi did not allocate',
        ),
        (
            (H20[0], H20[1]),
            ("GPU4 GPU-f055d080-1808-96f1-1c87-70fad19d9040, GPU6 GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8, "
            "which HAMi allocated, are missing"),
        ),
        ((H20[1], H20[0], H20[4], H20[6]), "these are its GPUs, but not in the order of their PCI bus ids"),
        ((H20[0], H20[0], H20[1], H20[4], H20[6]), "it lists a GPU twice"),
    ],
)  # fmt: skip
def test_visible_gpus_that_are_not_those_of_the_pod_stop_it(uuids: tuple[str, ...], why: str) -> None:
    verdict = judged(POD_PEERS, VISIBLE_UUIDS=",".join(uuids))
    assert ended(verdict) == (12, f"{VISIBLE}: {why}")


def test_a_pod_that_bind_never_saw_stops_in_the_peer_profiles() -> None:
    assert ended(judged(POD_PEERS | NOT_BOUND, VISIBLE_UUIDS="none")) == (
        10,
        (
            "the binding webhook did not run: annotation gpu.topology/cuda-visible-devices.0 still has its value from "
            "admission, -1"
        ),
    )
    assert judged(NODE_PEERS | NOT_BOUND).code is ExitCode.NOT_BOUND


def test_an_annotation_that_is_missing_altogether_is_said_to_be() -> None:
    verdict = judged(NODE_PEERS, CUDA_VISIBLE_DEVICES_1=MISSING)
    assert ended(verdict) == (
        10,
        "the binding webhook did not run: annotation gpu.topology/cuda-visible-devices.1 is missing",
    )


@pytest.mark.parametrize("topology", ["{}", MISSING])
def test_an_exclusive_pod_that_bind_never_saw_runs_with_a_warning(topology: str) -> None:
    verdict = judged(EXCLUSIVE, NODE_TOPOLOGY=topology)
    assert verdict.code is ExitCode.TRUE
    assert verdict.warnings == (
        (
            "the binding webhook wrote nothing into annotation gpu.topology/node-topology: it did not run, or could "
            "not tell the GPUs (see the events of the pod)"
        ),
    )


def test_an_exclusive_pod_without_an_allocation_runs_with_a_warning() -> None:
    verdict = judged(EXCLUSIVE, ALLOCATION=MISSING)
    assert ended(verdict) == (
        0, "ok: nothing is known of the GPUs of this pod, and nothing says that they are wrong",
    )  # fmt: skip
    assert verdict.warnings == (
        (
            "annotation hami.io/vgpu-devices-allocated names no GPU: HAMi has given this pod none, so nothing can be "
            "verified"
        ),
    )


def test_an_allocation_of_separators_alone_is_none() -> None:
    assert judged(EXCLUSIVE, ALLOCATION=";;").warnings == judged(EXCLUSIVE, ALLOCATION=MISSING).warnings


def test_values_without_an_allocation_name_gpus_of_others() -> None:
    assert ended(judged(NODE_PEERS, ALLOCATION=MISSING)) == (
        12, "annotation hami.io/vgpu-devices-allocated names no GPU: HAMi has given this pod none",
    )  # fmt: skip
    assert judged(NODE_PEERS | NOT_BOUND, ALLOCATION=MISSING).code is ExitCode.NOT_BOUND
    assert judged(NODE_PEERS | NOT_BOUND, ALLOCATION=MISSING, ENVIRONMENT="file").code is ExitCode.NOT_BOUND


@pytest.mark.parametrize("variables", [NODE_PEERS, EXCLUSIVE], ids=["node-peers", "exclusive"])
def test_a_gpu_that_is_not_on_the_node_stops_the_pod(variables: dict[str, str]) -> None:
    verdict = judged(variables, ALLOCATION=allocated((H20[0], "GPU-elsewhere"), DECODE))
    assert verdict.code is ExitCode.GPU_MISSING
    assert verdict.reason.startswith(
        "GPU-elsewhere was allocated, but is none of the 8 GPUs that node h20-node-1 lists"
    )


def test_a_lost_gpu_stops_the_pod() -> None:
    assert ended(judged(EXCLUSIVE, seen=without(h20(), 4))) == (
        11,
        "GPU-f055d080-1808-96f1-1c87-70fad19d9040 of node h20-node-1 is GPU4, which cannot be reached: GPU is lost",
    )


def test_the_loss_of_somebody_elses_gpu_moves_the_numbers_of_a_node() -> None:
    seen = without(h20(), 3)
    assert judged(POD_PEERS, seen=seen).code is ExitCode.TRUE
    assert ended(judged(NODE_PEERS, seen=seen)) == (
        12,
        (
            "CUDA_VISIBLE_DEVICES of container decode is 4,6: 4 is GPU5 GPU-1c7e92d4-3fa8-5b06-8e41-6d20c9b7f35a, "
            "6 is GPU7 GPU-5af40c3e-917b-d82c-f6a5-b1e8372d0946, but HAMi allocated "
            "GPU4 GPU-f055d080-1808-96f1-1c87-70fad19d9040, GPU6 GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8"
        ),
    )


IN_MIG_MODE = (
    "GPU6 GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8 of node h20-node-1 is in MIG mode: there is no NVLink "
    "between instances"
)


@pytest.mark.parametrize("variables", [POD_PEERS, NODE_PEERS])
def test_a_gpu_in_mig_mode_stops_peers(variables: dict[str, str]) -> None:
    seen = bent(h20(), 6, mig_mode=MigMode.ENABLED, nvlinks=())
    assert ended(judged(variables, seen=seen)) == (13, IN_MIG_MODE)


def test_an_exclusive_pod_with_a_gpu_in_mig_mode_runs_with_a_warning_unless_it_denies_that() -> None:
    seen = bent(h20(), 6, mig_mode=MigMode.ENABLED, nvlinks=())
    verdict = judged(EXCLUSIVE, seen=seen)
    assert verdict.code is ExitCode.TRUE
    assert IN_MIG_MODE in verdict.warnings
    required = judged(EXCLUSIVE, seen=seen, REQUIRE_NVLINK="true")
    assert required.code is ExitCode.TRUE
    denied = judged(EXCLUSIVE, seen=seen, REQUIRE_NVLINK="true", ON_VIOLATION="deny")
    assert ended(denied) == (15, f"a requirement is not met: {IN_MIG_MODE}")


def without_gpus(*indices: int) -> NodeTopology:
    """What NVML lists in a container that may not see these GPUs: the others, in a new order."""
    gpus = [gpu for gpu in h20().gpus if gpu.index not in indices]
    seen = tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus))
    return replace(h20(), gpus=seen, nics=())


def test_gpus_of_the_node_that_cannot_be_seen_stop_a_node_peer() -> None:
    assert ended(judged(NODE_PEERS, seen=without_gpus(2, 3))) == (
        19,
        (
            "GPU2 GPU-4650fca3-dbba-f168-d6bd-338a4ba8f044, GPU3 GPU-9648f14e-6ab2-46f0-221f-777f7652630b of this node "
            f"cannot be seen here, so that CUDA counts the others differently: {TOOLKIT}"
        ),
    )


def test_a_node_peer_is_warned_where_the_number_of_gpus_is_not_known() -> None:
    verdict = judged(NODE_PEERS, NODE_TOPOLOGY="{}")
    assert verdict.code is ExitCode.TRUE
    assert verdict.warnings == (
        "whether every GPU of the node is seen here is not known: annotation gpu.topology/node-topology is empty",
    )


@pytest.mark.parametrize("variables", [POD_PEERS, EXCLUSIVE], ids=["pod-peers", "exclusive"])
def test_gpus_that_are_hidden_are_no_disagreement(variables: dict[str, str]) -> None:
    assert judged(variables, seen=without_gpus(2, 3, 5, 7)).warnings == ()


def test_links_that_went_down_are_told_of_where_other_gpus_are_hidden() -> None:
    seen = with_switch_links(without_gpus(2, 3, 5, 7), 2, 3)
    assert judged(POD_PEERS, seen=seen).warnings == (
        (
            "NVML and what was published of this node disagree: GPU2 GPU-f055d080-1808-96f1-1c87-70fad19d9040 has 3 "
            "NVLinks to nvswitch, published were 18"
        ),
    )


def test_a_gpu_that_nobody_published_is_named_where_others_are_hidden() -> None:
    published = format_topology(without(h20(), 6))
    warnings = judged(EXCLUSIVE, seen=without_gpus(2, 3, 5, 7), NODE_TOPOLOGY=published).warnings
    assert warnings == (
        (
            "NVML and what was published of this node disagree: GPU3 GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8 was not "
            "published"
        ),
    )


def test_an_own_gpu_that_cannot_be_seen_but_was_published_points_to_the_toolkit() -> None:
    verdict = judged(POD_PEERS, seen=without_gpus(4))
    assert verdict.code is ExitCode.GPU_MISSING
    assert verdict.reason.endswith(f". It was published as a GPU of this node: {TOOLKIT}")


NOT_TOLD = (
    "this container is shown no GPU, because the binding webhook did not run, or could not tell the GPUs (see the "
    "events of the pod): annotation gpu.topology/visible-uuids"
)


def test_an_exclusive_pod_whose_list_is_true_passes_without_a_warning() -> None:
    verdict = judged(NARROW, seen=without_gpus(2, 3, 5, 7))
    assert ended(verdict) == (0, "ok: the 4 GPUs of this pod are those it was given")
    assert verdict.warnings == ()
    said = [finding.text for finding in verdict.findings]
    assert ("NVML lists 4 GPUs; 4 more of this node cannot be seen from here, so numbers count those that can") in said


@pytest.mark.parametrize(
    ("value", "why"), [("none", "still has its value from admission, none"), (MISSING, "is missing")]
)
def test_an_exclusive_pod_that_is_shown_nothing_says_why(value: str, why: str) -> None:
    seen = NodeTopology(node="h20-node-1", source="nvml", problem="the NVIDIA driver lists no GPU: see lspci")
    verdict = judged(NARROW, seen=seen, VISIBLE_UUIDS=value, NODE_TOPOLOGY="{}")
    assert verdict.code is ExitCode.TRUE
    assert verdict.warnings == (
        f"nothing to verify with: {NOT_TOLD} {why}, and annotation gpu.topology/node-topology is empty",
    )
    known = judged(NARROW, seen=seen, VISIBLE_UUIDS=value)
    assert known.warnings[0].startswith(f"the GPUs cannot be seen from here: {NOT_TOLD} {why}. So annotation ")


def test_an_exclusive_pod_that_is_shown_a_list_and_sees_no_gpu_blames_the_driver() -> None:
    verdict = judged(NARROW, seen=NO_DRIVER)
    assert verdict.code is ExitCode.TRUE
    assert verdict.warnings[0].startswith("the GPUs cannot be seen from here: libnvidia-ml.so.1 is not here. So ")


@pytest.mark.parametrize(
    ("seen", "uuids", "why"),
    [
        ((2, 3), (H20[2], H20[3]), ", lists other GPUs than HAMi allocated: GPU-"),
        ((0, 1, 4, 6, 7), (H20[0], H20[1], H20[4], H20[6], H20[7]), ": it lists GPU4 GPU-5af40c3e-917b-d82c-f6a5-b1e8"),
    ],
)
@pytest.mark.parametrize("variables", [NARROW, POD_PEERS], ids=["exclusive", "pod-peers"])
def test_a_list_of_others_stops_the_pod(
    variables: dict[str, str], seen: tuple[int, ...], uuids: tuple[str, ...], why: str
) -> None:
    hidden = [index for index in range(8) if index not in seen]
    verdict = judged(variables, seen=without_gpus(*hidden), VISIBLE_UUIDS=",".join(uuids))
    assert verdict.code is ExitCode.OTHER_GPUS
    start = "annotation gpu.topology/visible-uuids, from which NVIDIA_VISIBLE_DEVICES comes"
    assert verdict.reason.startswith(f"{start}{why}")


def test_a_list_where_nothing_is_allocated_stops_an_exclusive_pod() -> None:
    verdict = judged(NARROW, ALLOCATION=MISSING)
    assert ended(verdict) == (
        12,
        (
            "annotation hami.io/vgpu-devices-allocated names no GPU: HAMi has given this pod none, but annotation "
            "gpu.topology/visible-uuids, from which NVIDIA_VISIBLE_DEVICES comes, lists some"
        ),
    )
    assert judged(NARROW, ALLOCATION=MISSING, VISIBLE_UUIDS="none").code is ExitCode.TRUE


def test_a_gpu_of_the_list_that_is_not_shown_is_missing() -> None:
    verdict = judged(NARROW, seen=without_gpus(2, 3, 4, 5, 7))
    assert verdict.code is ExitCode.GPU_MISSING
    assert verdict.reason.endswith(f". It was published as a GPU of this node: {TOOLKIT}")


def test_a_library_of_hami_in_the_preload_file_stops_the_pod() -> None:
    assert ended(judged(EXCLUSIVE, preload="/usr/local/vgpu/libvgpu.so\n")) == (
        14,
        (
            "HAMi's interception library is preloaded here: /etc/ld.so.preload names libvgpu. "
            "CUDA_DISABLE_CONTROL=true keeps HAMi from it; or is it part of the image?"
        ),
    )


def test_a_library_of_hami_in_the_process_stops_the_pod() -> None:
    assert ended(judged(EXCLUSIVE, mapped=True)) == (
        14,
        (
            "HAMi's interception library is preloaded here: libvgpu is part of this process. CUDA_DISABLE_CONTROL=true "
            "keeps HAMi from it; or is it part of the image?"
        ),
    )


def test_another_library_in_the_preload_file_is_the_users() -> None:
    assert judged(EXCLUSIVE, preload="/usr/lib/libjemalloc.so\n").code is ExitCode.TRUE


def test_a_requirement_that_the_real_links_do_not_meet_stops_the_pod_with_deny() -> None:
    verdict = judged(BRIDGED, seen=a100_pcie_bridged(), ON_VIOLATION="deny")
    assert ended(verdict) == (15, f"a requirement is not met: {UNLINKED}")


@pytest.mark.parametrize("word", [{}, {"GPU_TOPOLOGY_ON_VIOLATION": "warn"}])
def test_a_requirement_that_is_not_met_is_else_a_warning(word: dict[str, str]) -> None:
    verdict = judged(BRIDGED | word, seen=a100_pcie_bridged())
    assert verdict.code is ExitCode.TRUE
    assert verdict.warnings == (f"a requirement is not met: {UNLINKED}",)


def test_links_that_went_down_after_bind_break_a_requirement() -> None:
    seen = with_switch_links(h20(), 4, 3)
    verdict = judged(POD_PEERS, seen=seen, MIN_BANDWIDTH="300", ON_VIOLATION="deny")
    assert ended(verdict) == (
        15,
        "a requirement is not met: min-bandwidth 300: GPU0 and GPU4 have 61.8 GB/s (NVL), the link class is NVSwitch",
    )
    assert verdict.warnings == (
        "NVML and what was published of this node disagree: GPU4 has 3 NVLinks to nvswitch, published were 18",
    )


def test_what_is_met_is_said_with_its_evidence() -> None:
    verdict = judged(POD_PEERS, REQUIRE_NVLINK="true", MIN_BANDWIDTH="300")
    assert "the requirements are met: the link class is NVSwitch, with 370.8 GB/s" in [
        finding.text for finding in verdict.findings
    ]


PRIVILEGED = "prefill:2:0,decode:2:1:privileged"
OWN = [gpu for gpu in h20().gpus if gpu.index in (0, 1, 4, 6)]


def test_the_numbers_of_a_privileged_container_are_those_of_the_whole_node() -> None:
    assert judged(POD_PEERS, CONTAINERS=PRIVILEGED, CUDA_VISIBLE_DEVICES_1="4,6").code is ExitCode.TRUE
    assert judged(POD_PEERS, CONTAINERS=PRIVILEGED).code is ExitCode.OTHER_GPUS


def test_they_are_verified_with_what_was_published_where_the_other_gpus_cannot_be_seen() -> None:
    seen = replace(h20(), gpus=tuple(OWN))
    assert judged(POD_PEERS, seen=seen, CONTAINERS=PRIVILEGED, CUDA_VISIBLE_DEVICES_1="4,6").code is ExitCode.TRUE
    assert judged(POD_PEERS, seen=seen, CONTAINERS=PRIVILEGED).code is ExitCode.OTHER_GPUS


def test_they_are_not_verified_where_nothing_was_published() -> None:
    seen = replace(h20(), gpus=tuple(OWN))
    verdict = judged(POD_PEERS, seen=seen, CONTAINERS=PRIVILEGED, CUDA_VISIBLE_DEVICES_1="4,6", NODE_TOPOLOGY="{}")
    assert verdict.code is ExitCode.TRUE
    assert (
        "CUDA_VISIBLE_DEVICES of container decode is 4,6: it is privileged and counts GPUs of the node that cannot be "
        "seen from here"
    ) in verdict.warnings


def test_a_policy_is_verified_on_the_real_machine() -> None:
    seen = with_switch_links(h20(), 4, 0)
    verdict = judged(POD_PEERS, seen=seen, POLICY="nvlink", ON_VIOLATION="deny")
    assert verdict.code is ExitCode.REQUIREMENT
    assert verdict.reason.startswith("a requirement is not met: policy nvlink: GPU0 and GPU4 have ")
    verdict = judged(POD_PEERS, POLICY="nvlink", ON_VIOLATION="deny")
    assert verdict.code is ExitCode.TRUE


def test_a_policy_about_numa_nodes_is_verified_on_the_real_machine() -> None:
    verdict = judged(POD_PEERS, POLICY="single-numa", ON_VIOLATION="deny")
    assert ended(verdict) == (
        15,
        "a requirement is not met: policy single-numa: GPU0 is on NUMA node 0, GPU4 on NUMA node 1",
    )
    verdict = judged(EXCLUSIVE, POLICY="single-numa", ON_VIOLATION="deny")
    assert verdict.code is ExitCode.TRUE
    assert "the requirements are met: the GPUs are on one NUMA node" in [found.text for found in verdict.findings]


def test_requirements_of_a_pod_of_which_nothing_is_known_are_unknown() -> None:
    verdict = judged(EXCLUSIVE, ALLOCATION=MISSING, REQUIRE_NVLINK="true", ON_VIOLATION="deny")
    assert verdict.code is ExitCode.TRUE
    assert "whether the requirements are met is not known" in verdict.warnings


def test_without_nvml_the_published_topology_stands_in() -> None:
    verdict = judged(NODE_PEERS, seen=NO_DRIVER)
    assert verdict.code is ExitCode.TRUE
    assert verdict.node is not None
    assert verdict.node.origin is Origin.AGENT
    assert verdict.warnings == (
        (
            "the GPUs cannot be seen from here: libnvidia-ml.so.1 is not here. So annotation "
            "gpu.topology/node-topology, which comes from the agent of this node, is believed"
        ),
    )


def test_without_nvml_a_wrong_value_is_still_found() -> None:
    assert judged(NODE_PEERS, seen=NO_DRIVER, CUDA_VISIBLE_DEVICES_0="2,3").code is ExitCode.OTHER_GPUS


@pytest.mark.parametrize("variables", [POD_PEERS, NODE_PEERS], ids=["pod-peers", "node-peers"])
def test_a_peer_with_nothing_to_verify_with_stops(variables: dict[str, str]) -> None:
    assert ended(judged(variables, seen=NO_DRIVER, NODE_TOPOLOGY="{}")) == (
        16,
        "nothing to verify with: libnvidia-ml.so.1 is not here, and annotation gpu.topology/node-topology is empty",
    )


def test_an_exclusive_pod_with_nothing_to_verify_with_runs() -> None:
    verdict = judged(EXCLUSIVE, seen=NO_DRIVER, NODE_TOPOLOGY="{}")
    assert verdict.code is ExitCode.TRUE
    assert verdict.node is None
    assert verdict.warnings == (
        "nothing to verify with: libnvidia-ml.so.1 is not here, and annotation gpu.topology/node-topology is empty",
    )


def test_the_topology_of_another_node_is_not_believed() -> None:
    other = format_topology(replace(h20(), node="h20-node-2"))
    assert ended(judged(NODE_PEERS, seen=NO_DRIVER, NODE_TOPOLOGY=other)) == (
        16,
        (
            "nothing to verify with: libnvidia-ml.so.1 is not here, and annotation gpu.topology/node-topology is that "
            "of node h20-node-2"
        ),
    )
    assert judged(NODE_PEERS, NODE_TOPOLOGY=other).warnings == (
        "annotation gpu.topology/node-topology is that of node h20-node-2, this is h20-node-1",
    )


def test_a_gpu_whose_number_changed_since_it_was_published_is_named() -> None:
    swapped = {2: 3, 3: 2}
    gpus = sorted(
        (replace(gpu, index=swapped.get(gpu.index, gpu.index)) for gpu in h20().gpus), key=lambda gpu: gpu.index
    )
    verdict = judged(NODE_PEERS, seen=replace(h20(), gpus=tuple(gpus), nics=()))
    assert verdict.code is ExitCode.TRUE
    assert verdict.warnings == (
        (
            "NVML and what was published of this node disagree: "
            "GPU2 GPU-9648f14e-6ab2-46f0-221f-777f7652630b was published as GPU3, "
            "GPU3 GPU-4650fca3-dbba-f168-d6bd-338a4ba8f044 was published as GPU2"
        ),
    )


def test_a_gpu_that_nobody_published_is_named() -> None:
    published = format_topology(without(h20(), 7))
    assert judged(NODE_PEERS, NODE_TOPOLOGY=published).warnings == (
        (
            "NVML and what was published of this node disagree: GPU7 GPU-5af40c3e-917b-d82c-f6a5-b1e8372d0946 was not "
            "published"
        ),
    )


def test_links_that_hami_guessed_are_not_compared() -> None:
    guessed = format_topology(replace(h20(), source="hami", gpus=tuple(replace(gpu, nvlinks=()) for gpu in h20().gpus)))
    assert judged(NODE_PEERS, NODE_TOPOLOGY=guessed).warnings == ()
    verdict = judged(NODE_PEERS, NODE_TOPOLOGY=guessed, seen=NO_DRIVER)
    assert verdict.node is not None
    assert verdict.node.origin is Origin.HAMI


def test_an_allocation_that_does_not_fit_the_containers_is_a_variable_that_cannot_be_read() -> None:
    verdict = judged(POD_PEERS, ALLOCATION=allocated(PREFILL))
    assert verdict.code is ExitCode.BAD_VARIABLE
    assert verdict.reason.startswith("variable GPU_TOPOLOGY_ALLOCATION: ")


@pytest.mark.parametrize("allocation", [allocated(PREFILL), "GPU-1,NVIDIA,many,100:;"])
def test_an_exclusive_pod_runs_with_an_allocation_that_cannot_be_read_as_it_is_bound_with_one(allocation: str) -> None:
    verdict = judged(EXCLUSIVE, ALLOCATION=allocation)
    assert verdict.code is ExitCode.TRUE
    assert verdict.resolution is None
    assert any("variable GPU_TOPOLOGY_ALLOCATION: " in warning for warning in verdict.warnings)


def test_a_pod_whose_chosen_containers_got_nothing_is_told_so() -> None:
    verdict = judged(EXCLUSIVE, CONTAINERS="warm:1::init,train:2::left-out", ALLOCATION=allocated(PREFILL))
    assert verdict.code is ExitCode.TRUE
    assert "the scheduler has given no GPU to the containers that the pod wants prepared" in verdict.warnings


def test_containers_that_the_pod_leaves_out_take_their_gpus_and_nothing_else() -> None:
    verdict = judged(EXCLUSIVE, CONTAINERS="prefill:2::left-out,decode:2:")
    assert verdict.resolution is not None
    assert [given.container.name for given in verdict.resolution.containers] == ["decode"]
    assert [gpu.index for gpu in verdict.resolution.gpus] == [4, 6]


def test_hamis_older_than_2_9_give_init_containers_nothing() -> None:
    verdict = judged(EXCLUSIVE, CONTAINERS="warm-up:1::init,prefill:2:,decode:2:")
    assert verdict.resolution is not None
    assert [given.container.name for given in verdict.resolution.containers] == ["prefill", "decode"]


def test_the_scheduler_is_called_by_its_name() -> None:
    other = (
        "".join(f"{uuid},NVIDIA,97871,100:" for uuid in PREFILL)
        + ";"
        + f"{H20[4]},NVIDIA,97871,100:{H20[7]},NVIDIA,97871,100:"
    )
    verdict = judged(NODE_PEERS, ALLOCATED_BY="volcano", ALLOCATION=other)
    assert verdict.reason == (
        "CUDA_VISIBLE_DEVICES of container decode is 4,6: 6 is GPU6 GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8, but "
        "Volcano allocated GPU7 GPU-5af40c3e-917b-d82c-f6a5-b1e8372d0946"
    )


def test_with_values_from_the_file_bind_is_not_needed() -> None:
    verdict = judged(POD_PEERS | NOT_BOUND, VISIBLE_UUIDS="none", ENVIRONMENT="file")
    assert ended(verdict) == (0, "ok: the 4 GPUs of this pod are those it was given")
    assert verdict.warnings == ()


def test_with_values_from_the_file_wrong_annotations_are_a_warning() -> None:
    verdict = judged(NODE_PEERS, ENVIRONMENT="file", CUDA_VISIBLE_DEVICES_1="4,7")
    assert verdict.code is ExitCode.TRUE
    assert verdict.warnings == (
        (
            "CUDA_VISIBLE_DEVICES of container decode is 4,7: 7 is GPU7 GPU-5af40c3e-917b-d82c-f6a5-b1e8372d0946, but "
            "HAMi allocated GPU6 GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8. Containers read the value from the file "
            "env, which is right"
        ),
    )


def test_the_first_thing_that_matters_is_the_reason() -> None:
    verdict = judged(NODE_PEERS | NOT_BOUND, preload="libvgpu.so", seen=NO_DRIVER)
    codes = [finding.code for finding in verdict.findings if finding.code]
    assert codes[0] is verdict.code is ExitCode.NOT_BOUND
    assert set(codes) == {ExitCode.NOT_BOUND, ExitCode.PRELOADED, ExitCode.NOTHING_TO_VERIFY_WITH}

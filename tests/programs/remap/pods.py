"""Pods as the remap program is told of them: the variables of its container."""

from collections.abc import Mapping, Sequence

from tests.hardware.topology.machines import h20
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.remap.inputs import Inputs, read_inputs
from webhook.programs.remap.verdict import Verdict
from webhook.programs.remap.verify import MachineState, verify

H20 = (
    "GPU-b0c5b618-67d0-f464-9905-e1fd41226305",
    "GPU-4695a002-ab2d-092d-6db9-44e9ae3cb5a6",
    "GPU-4650fca3-dbba-f168-d6bd-338a4ba8f044",
    "GPU-9648f14e-6ab2-46f0-221f-777f7652630b",
    "GPU-f055d080-1808-96f1-1c87-70fad19d9040",
    "GPU-1c7e92d4-3fa8-5b06-8e41-6d20c9b7f35a",
    "GPU-83d5b1f0-c264-97ea-2b3c-0e9f4a61d7b8",
    "GPU-5af40c3e-917b-d82c-f6a5-b1e8372d0946",
)
MISSING = ""
"""What the downward API gives for an annotation that is not there."""


def allocated(*containers: Sequence[str]) -> str:
    """HAMi's annotation for containers with whole GPUs, given by their UUIDs."""
    return "".join("".join(f"{uuid},NVIDIA,97871,100:" for uuid in container) + ";" for container in containers)


PREFILL, DECODE = (H20[1], H20[0]), (H20[4], H20[6])
"""In the order in which HAMi happened to pick them."""

_COMMON = {
    "CUDA_DISABLE_CONTROL": "true",
    "GPU_TOPOLOGY_REQUIRE_NVLINK": "false",
    "GPU_TOPOLOGY_NODE_NAME": "h20-node-1",
    "GPU_TOPOLOGY_ALLOCATION": allocated(PREFILL, DECODE),
    "GPU_TOPOLOGY_NODE_TOPOLOGY": format_topology(h20()),
}
_PEERS = {"GPU_TOPOLOGY_CONTAINERS": "prefill:2:0,decode:2:1", "GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_0": "0,1"}

POD_PEERS = {
    **_COMMON,
    **_PEERS,
    "GPU_TOPOLOGY_PROFILE": "pod-peers",
    "GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_1": "2,3",
    "GPU_TOPOLOGY_VISIBLE_UUIDS": ",".join((H20[0], H20[1], H20[4], H20[6])),
}
NODE_PEERS = {
    **_COMMON,
    **_PEERS,
    "GPU_TOPOLOGY_PROFILE": "node-peers",
    "GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_1": "4,6",
}
EXCLUSIVE = {
    **_COMMON,
    "GPU_TOPOLOGY_PROFILE": "exclusive",
    "GPU_TOPOLOGY_CONTAINERS": "prefill:2:,decode:2:",
}
NARROW = {**EXCLUSIVE, "GPU_TOPOLOGY_VISIBLE_UUIDS": POD_PEERS["GPU_TOPOLOGY_VISIBLE_UUIDS"]}
"""Where the remap container is shown the GPUs of its pod and no others."""
NOT_BOUND = {
    "GPU_TOPOLOGY_NODE_TOPOLOGY": "{}",
    "GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_0": "-1",
    "GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_1": "-1",
}

NO_DRIVER = NodeTopology(node="h20-node-1", source="nvml", problem="libnvidia-ml.so.1 is not here")


def told(variables: Mapping[str, str], /, **changes: str) -> Inputs:
    """The pod with some variables changed; their names without the prefix."""
    return read_inputs({**variables, **{f"GPU_TOPOLOGY_{name}": value for name, value in changes.items()}})


def judged(
    variables: Mapping[str, str],
    /,
    *,
    seen: NodeTopology | None = None,
    preload: str = "",
    mapped: bool = False,
    **changes: str,
) -> Verdict:
    """The verdict on a machine with eight H20, or on another one."""
    return verify(told(variables, **changes), MachineState(topology=seen or h20(), preload=preload, mapped=mapped))

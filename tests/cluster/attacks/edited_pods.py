"""A tenant with the built-in role ``edit`` changes what a running pod was told of its GPUs."""

from typing import Any

from tests.cluster.attacks.replay import Found
from tests.cluster.attacks.stage import Stage
from tests.cluster.registration import gpu_pod
from tests.cluster.scheduling import NODE
from tests.topology.machines import H20_UUIDS

FOREIGN = H20_UUIDS[7]
CHANGES: dict[str, str | None] = {
    "gpu.topology/visible-uuids": FOREIGN,
    "gpu.topology/cuda-visible-devices.0": "7",
    "gpu.topology/node-topology": "{}",
    "gpu.topology/injected": None,
    "gpu.topology/nccl-p2p-level": "SYS",
    "gpu.topology/satisfied": "true",
    "hami.io/vgpu-devices-allocated": f"{FOREIGN},NVIDIA,97871,100:;",
    "hami.io/vgpu-node": "elsewhere",
}
ALLOCATION: dict[str, str | None] = {
    "hami.io/vgpu-node": NODE,
    "hami.io/vgpu-devices-allocated": "".join(f"{uuid},NVIDIA,97871,100:" for uuid in H20_UUIDS[:2]) + ";",
    "hami.io/bind-phase": "allocating",
}


def run(stage: Stage) -> Found:
    """A pod of each kind; HAMi's scheduler can do what it has to."""
    faults, refused = [], 0
    for name, labels in (("running", {}), ("opted-out", {"gpu.topology/injection": "disabled"})):
        faults += _bind(stage, name, labels)
        for key, value in CHANGES.items():
            answer = stage.editor.annotates(stage.team, name, {key: value})
            refused += answer.status in (403, 422)
            if answer.status not in (403, 422):
                faults.append(f"edit changes {key} of a pod that is {name}: {answer.short}")
        harmless = stage.editor.annotates(stage.team, name, {"example.com/note": "x"})
        faults += [f"edit may annotate nothing: {harmless.short}"] if harmless.status != 200 else []
        allocated = stage.hami.annotates(stage.team, name, ALLOCATION | {"hami.io/bind-phase": "success"})
        faults += [f"HAMi may not allocate: {allocated.short}"] if allocated.status != 200 else []
    return Found(f"{refused} of {2 * len(CHANGES)} changes refused", tuple(faults))


def _bind(stage: Stage, name: str, labels: dict[str, Any]) -> list[str]:
    path = f"/api/v1/namespaces/{stage.team}/pods/{name}"
    answers = [
        stage.creator.creates(stage.team, gpu_pod(name, {}, **labels)),
        stage.hami.annotates(stage.team, name, ALLOCATION),
        stage.hami.asks(
            "POST", f"{path}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": NODE}}
        ),
    ]
    return [f"no {name} pod: {answer.short}" for answer in answers if answer.status not in (200, 201)]

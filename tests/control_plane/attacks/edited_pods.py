"""A tenant with the built-in role ``edit`` changes what a running pod was told of its GPUs."""

from tests.control_plane.attacks.replay import Found
from tests.control_plane.attacks.stage import Stage
from tests.control_plane.registration import gpu_pod
from tests.hardware.topology.machines import H20_UUIDS

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


def run(stage: Stage) -> Found:
    """A pod of each kind; HAMi's scheduler can do what it has to."""
    faults, refused, tried = [], 0, 0
    for name, labels in (("running", {}), ("opted-out", {"gpu.topology/injection": "disabled"})):
        created = stage.creator.creates(stage.team, gpu_pod(name, {}, **labels))
        assert created.status == 201, created.short
        stage.schedules(name)
        had = stage.annotations(name)
        if not labels and "gpu.topology/link" not in had:
            faults.append("bind told the pod nothing that could be changed")
        for key, value in CHANGES.items():
            if had.get(key) == value:
                continue
            tried += 1
            answer = stage.editor.annotates(stage.team, name, {key: value})
            refused += answer.status in (403, 422)
            if answer.status not in (403, 422):
                faults.append(f"edit changes {key} of a pod that is {name}: {answer.short}")
        harmless = stage.editor.annotates(stage.team, name, {"example.com/note": "x"})
        faults += [f"edit may annotate nothing: {harmless.short}"] if harmless.status != 200 else []
        again = stage.hami.annotates(stage.team, name, {"hami.io/bind-phase": "success", "hami.io/vgpu-node": "other"})
        faults += [f"HAMi may not allocate: {again.short}"] if again.status != 200 else []
    return Found(f"{refused} of {tried} changes refused", tuple(faults))

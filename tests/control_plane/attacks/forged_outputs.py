"""Annotations that only the webhook writes, in pods that it leaves alone and in those that read them themselves."""

from collections.abc import Iterator
from typing import Any

from tests.control_plane.attacks.replay import Found
from tests.control_plane.attacks.stage import Stage
from tests.control_plane.hami.team import annotations_of
from tests.control_plane.registration import gpu_container, gpu_pod
from webhook.decisions.options import is_output

FORGED = {
    "gpu.topology/injected": "0.1.0 pod-peers",
    "gpu.topology/visible-uuids": "GPU-forged",
    "gpu.topology/cuda-visible-devices.0": "0,1,2,3,4,5,6,7",
    "gpu.topology/node-topology": '{"forged": 1}',
    "gpu.topology/link": "forged",
    "gpu.topology/nccl-env.NCCL_ALGO": "forged",
}


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Those that are left alone, each for its reason, and one that is injected."""
    yield "inject-false", gpu_pod("a", FORGED | {"gpu.topology/inject": "false"})
    yield "opt-out label", gpu_pod("b", FORGED, **{"gpu.topology/injection": "disabled"})
    yield "observe", gpu_pod("c", FORGED | {"gpu.topology/profile": "observe"})
    yield "one GPU", gpu_pod("d", FORGED, gpu_container(gpus=1))
    yield "no GPU", gpu_pod("e", FORGED, {"name": "c", "image": "x"})
    yield (
        "MIG",
        gpu_pod("f", FORGED, {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}),
    )
    variables = [
        {"name": f"V{number}", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}}
        for number, key in enumerate(FORGED)
    ]
    yield "injected, and it reads them", gpu_pod("g", FORGED, gpu_container(env=variables))


def run(stage: Stage) -> Found:
    """Dry runs for what is stored, and one pod that is bound."""
    faults = []
    for what, pod in pods():
        answer = stage.creator.creates(stage.team, pod, dry_run=True)
        faults += [f"{what}: {key} stays" for key in _forged(answer.body)] if answer.status == 201 else []
    believed = _believed(stage)
    faults += [f"bind believes the mark of a pod that was left alone, and writes {key}" for key in believed]
    return Found(f"{len(faults) - len(believed)} forged annotations stay; bind wrote {len(believed)}", tuple(faults))


def _forged(pod: dict[str, Any]) -> list[str]:
    found = annotations_of(pod)
    return [key for key, value in FORGED.items() if found.get(key) == value]


def _believed(stage: Stage) -> list[str]:
    """Outputs of a pod with the label of the opt-out and a forged mark, once HAMi has bound it."""
    mark = {"gpu.topology/injected": "0.1.0 exclusive"}
    pod = gpu_pod("forged-mark", mark, **{"gpu.topology/injection": "disabled"})
    if stage.creator.creates(stage.team, pod).status != 201:
        return []
    stage.schedules("forged-mark")
    return [key for key in stage.annotations("forged-mark") if is_output(key) and key not in mark]

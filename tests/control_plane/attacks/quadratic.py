"""Pods of two long parts, each of which is looked for in all of the other."""

from collections.abc import Iterator
from typing import Any

from tests.control_plane.attacks.replay import Found
from tests.control_plane.attacks.stage import Stage
from tests.control_plane.registration import gpu_container, gpu_pod

LONGEST = 64 * 1024
VARIABLES, ASKED = 50_000, 9_000


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Both are within what the API server takes."""
    devices = "".join(f"GPU-a{number},NVIDIA,1,1:" for number in range(2_600))
    others = "".join(f"GPU-{number:x} " for number in range(7_000))
    allocation = {
        "hami.io/vgpu-node": "h20-node-1",
        "hami.io/vgpu-devices-allocated": devices[:LONGEST],
        "hami.io/vgpu-mig-allocations": others[:LONGEST],
    }
    yield "two allocations", gpu_pod("allocations", allocation)
    variables = [{"name": f"V{number}", "value": "0"} for number in range(VARIABLES)]
    asked = {f"gpu.topology/env.V{number}": "1" for number in range(ASKED)}
    yield f"{VARIABLES:,} variables and {ASKED:,} for them", gpu_pod("variables", asked, gpu_container(env=variables))


def run(stage: Stage) -> Found:
    """Dry runs; what is wrong is seen in the other namespace."""
    answers = [(what, stage.creator.creates(stage.team, pod, dry_run=True)) for what, pod in pods()]
    faults = [f"{what}: {answer.short}" for what, answer in answers if answer.status not in (201, 422)]
    return Found("; ".join(f"{what}: {answer.short}" for what, answer in answers), tuple(faults))

"""A small pod that asks for a large patch: variables by annotation, which each container gets."""

from collections.abc import Iterator
from typing import Any

from tests.control_plane.attacks.replay import Found
from tests.control_plane.attacks.stage import Stage
from tests.control_plane.registration import gpu_container, gpu_pod

CONTAINERS, FEWER, VARIABLES = 200, 100, 5000
LARGEST_REPLY = 1024 * 1024
TLS = 1.01
"""What encryption adds to a long reply, at most."""


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Many names, and few long values: both stay below what the API server takes of one object.

    The second has no more of anything than a pod may have here, so only the length of the reply is against it.
    """
    containers = [gpu_container(f"c{number}", 1) for number in range(CONTAINERS)]
    asked = {"gpu.topology/inject": "true"}
    names = {f"gpu.topology/env.V{number:04}": "" for number in range(VARIABLES)}
    yield f"{VARIABLES:,} names x {CONTAINERS} containers", gpu_pod("names", asked | names, *containers)
    values = {f"gpu.topology/env.V{number}": "x" * 24 * 1024 for number in range(10)}
    yield f"240 KiB of values x {FEWER} containers", gpu_pod("values", asked | values, *containers[:FEWER])


def run(stage: Stage) -> Found:
    """Dry runs: nothing of them is left."""
    said, faults, largest = [], [], 0
    for what, pod in pods():
        stage.traffic.largest_reply = 0
        answer = stage.creator.creates(stage.team, pod, dry_run=True)
        reply = stage.traffic.largest_reply
        largest = max(largest, reply)
        said.append(f"{what}: {answer.short}")
        if reply > LARGEST_REPLY * TLS:
            faults.append(f"{what}: a reply of {reply:,} bytes")
        if answer.status != 422:
            faults.append(f"{what}: not refused: {answer.short}")
    stage.traffic.largest_reply = largest
    return Found("; ".join(said), tuple(faults))

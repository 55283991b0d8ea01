"""What is asked for, and what must become of each pod."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.scheduler import USER
from tests.control_plane.installation import Installation
from tests.control_plane.load.client import Request

SCHEDULER = "hami-scheduler"


@dataclass(frozen=True)
class Plan:
    """How much.

    Attributes:
        rate: Pods a second.
        direct: Whether the API server asks the first replica, and not the Service.
        planner: Whether a planner chooses cards for the pods meanwhile.
    """

    nodes: int = 2000
    rate: float = 200.0
    seconds: float = 30.0
    direct: bool = False
    planner: bool = False

    @property
    def pods(self) -> int:
        """To be created."""
        return round(self.rate * self.seconds)

    def registration(self, ours: Installation) -> dict[str, Any]:
        """The MutatingWebhookConfiguration by which we are asked."""
        asked = replace(ours, url=f"https://127.0.0.1:{ours.ports[0][0]}") if self.direct else ours
        return asked.registration(scheduler=USER)


def pods_of(namespace: str, count: int, *, wanted: bytes) -> list[Request]:
    """Pods with eight GPUs, and pairs of pods with two, in turn.

    They name HAMi's scheduler, because HAMi's webhook, which does it else, does not run: a planner lets go at once what
    HAMi does not schedule.
    """
    kinds = (
        pod("NAME", container(gpus=8), schedulerName=SCHEDULER),
        pod("NAME", container(gpus=2), annotations={"profile": "node-peers"}, schedulerName=SCHEDULER),
    )
    bodies = [json.dumps(kind).encode() for kind in kinds]
    path = f"/api/v1/namespaces/{namespace}/pods"
    return [Request(path, bodies[number % 2].replace(b"NAME", b"pod-%06d" % number), wanted) for number in range(count)]


def is_prepared(stored: Mapping[str, Any]) -> bool:
    """Whether the pod has what every profile adds: the mark, whole cards, and HAMi's preload turned off.

    A planner that let it go without a choice was not at work.
    """
    (worker,) = stored["spec"]["containers"]
    literals = {variable["name"]: variable.get("value") for variable in worker.get("env", [])}
    return (
        stored["metadata"].get("labels", {}).get("gpu.topology/placement") != "released"
        and "gpu.topology/injected" in stored["metadata"].get("annotations", {})
        and worker["resources"]["limits"].get("nvidia.com/gpucores") == "100"
        and literals.get("CUDA_DISABLE_CONTROL") == "true"
    )

"""Mirrors that a test fills, and the answers that follow from them."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.decisions.place.cluster import named
from tests.hardware.topology.machines import a100_pcie_bridged, h20
from tests.programs.planner.test_mirrors import Told
from webhook.decisions.configuration import admit_policy, parse_config
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.pod import Namespace
from webhook.programs.log import Log
from webhook.programs.planner.extender.answers import Answers
from webhook.programs.planner.extender.complaints import Complaints
from webhook.programs.planner.extender.counts import Counts
from webhook.programs.planner.extender.knowledge import Knowledge

POLICY = admit_policy(parse_config({}), version="1.0.0")
PAIRS, WHOLE = named(a100_pcie_bridged(), "pairs"), named(h20(), "whole")
DENY = {"gpu.topology/require-nvlink": "true", "gpu.topology/on-violation": "deny"}
Object = dict[str, Any]


def pod(
    name: str = "train",
    gpus: int = 2,
    *,
    node: str = "",
    cards: Sequence[int] = (),
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """An injected pod of whole cards as kube-scheduler sends it; with cards if HAMi gave it some of a node."""
    given = dict(annotations or {})
    if cards:
        listed = "".join(f"GPU-{node}.{card},NVIDIA,40960,100:" for card in cards)
        given |= {"hami.io/vgpu-node": node, "hami.io/vgpu-devices-allocated": f"{listed};"}
    resources = {"nvidia.com/gpu": str(gpus), "nvidia.com/gpucores": "100"}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-of-{name}",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-15T09:30:00Z",
            "annotations": {"gpu.topology/injected": "1.0.0/exclusive", **given},
        },
        "spec": {
            "containers": [{"name": "main", "image": "x", "resources": {"limits": resources, "requests": resources}}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Running" if node else "Pending"},
    }


def denying(gpus: int = 2) -> Object:
    """A pod that gets no cards without NVLink."""
    return pod(gpus=gpus, annotations=DENY)


def question(asked: Any, *names: str) -> bytes:
    """As kube-scheduler asks with ``nodeCacheCapable: true``."""
    return json.dumps({"Pod": asked, "Nodes": None, "NodeNames": list(names)}).encode()


@dataclass
class Scene:
    """Both nodes with HAMi and agents.

    Attributes:
        namespaces: Gives what is known of a namespace.
        clock: Of the extender; None: that of the mirrors.
    """

    directory: Path
    namespaces: Callable[[str], Namespace] | None = None
    clock: Callable[[], float] | None = None
    told: Told = field(default_factory=Told)
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        descriptor = os.open(self.directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        log = Log(descriptor)
        clock = self.clock or (lambda: self.told.now)
        self.knowledge = Knowledge(
            self.told.mirrors, bug=lambda text: log.say("error", "bug", traceback=text), clock=lambda: self.told.now
        )
        self.answers = Answers(
            self.knowledge,
            POLICY,
            self.namespaces or self.told.mirrors.namespace,
            counts=self.counts,
            complaints=Complaints(log, lambda: self.told.now),
            clock=clock,
        )

    def filled(self, *nodes: NodeTopology) -> "Scene":
        """The same once the mirrors are filled."""
        for topology in nodes or (PAIRS, WHOLE):
            self.told.node(topology)
            self.told.publish(replace(topology))
            self.told.renew(topology.node)
        self.told.fill()
        self.told.mirrors.refresh()
        return self

    def put(self, manifest: Object) -> None:
        """The API server has this pod."""
        key = f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}"
        self.told.mirrors.pods.put(self.told.versioned(key, manifest))

    def filter(self, body: bytes) -> Any:
        """What is answered."""
        return json.loads(asyncio.run(self.answers.filter(body)))

    def prioritize(self, body: bytes) -> Any:
        """What is answered."""
        return json.loads(asyncio.run(self.answers.prioritize(body)))

    def lines(self) -> list[Object]:
        """Of the log."""
        return [json.loads(line) for line in (self.directory / "log").read_text().splitlines()]

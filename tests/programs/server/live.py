"""The reviews with ``--state kubernetes`` in this process, on the loop of the API server that they read."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import pytest

from tests.cluster.api.api_server import ApiServer
from tests.cluster.api.stand_in import kubeconfig, serving
from tests.decisions.test_detection import deployment
from tests.pods import Manifest
from tests.programs.server.asgi import Answer, App, posted, review
from tests.programs.server.conftest import until
from webhook.cli.inputs import read_settings
from webhook.programs.exposition import Exposition
from webhook.programs.server.app import create_app
from webhook.programs.server.caches import ClusterCaches
from webhook.programs.server.cluster_access import LiveCluster
from webhook.programs.server.counts import Counts
from webhook.programs.server.gates import GateOpener
from webhook.programs.server.log import ReviewLog
from webhook.programs.server.metrics import families

OWN = "gpu-topology"
NAMESPACES, NODES = "/api/v1/namespaces", "/api/v1/nodes"
CONFIG_MAPS = f"/api/v1/namespaces/{OWN}/configmaps"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases"
OPTED_IN = {"labels": {"gpu.topology/injection": "enabled"}}
TWO_GPUS = {
    "metadata": {"name": "train"},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
}

T = TypeVar("T")


@dataclass
class Cluster:
    """An API server in a thread of its own, and a kubeconfig for it."""

    api: ApiServer
    loop: asyncio.AbstractEventLoop
    kubeconfig: Path

    def wait(self, work: Awaitable[T]) -> T:
        """Await it in the server's thread."""
        return asyncio.run_coroutine_threadsafe(_awaited(work), self.loop).result(30)

    def do(self, change: Callable[[], object]) -> None:
        """Change something, in the server's thread."""
        self.wait(_called(change))


async def _awaited(work: Awaitable[T]) -> T:
    return await work


async def _called(change: Callable[[], object]) -> None:
    change()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One namespace that opted in, and no nodes."""
    api = ApiServer(page=100)
    for path in (NAMESPACES, NODES, CONFIG_MAPS, LEASES):
        api.collection(path)
    api.put(NAMESPACES, "ml-workloads", metadata=OPTED_IN)
    api.others = {
        "/version": {"gitVersion": "v1.33.2"},
        "/apis/apps/v1/deployments": {"items": [deployment("projecthami/hami:v2.9.0")]},
    }
    started: dict[str, Any] = {}

    async def serve() -> None:
        async with serving(api.turn) as stand_in:
            started.update(port=stand_in.port, loop=asyncio.get_running_loop(), end=asyncio.Event())
            await started["end"].wait()

    thread = Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    until(lambda: "end" in started, "the API server")
    config = kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{started['port']}")
    yield Cluster(api, started["loop"], config)
    started["loop"].call_soon_threadsafe(started["end"].set)
    thread.join()


@dataclass
class LiveServer:
    """The application of the reviews, and what fills its state."""

    cluster: Cluster
    reviews: App
    caches: ClusterCaches
    gates: GateOpener
    log: Path
    parts: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def waiting_for(self) -> str:
        return self.caches.state.waiting_for

    def post(self, body: bytes, path: str = "/mutate/pods") -> Answer:
        return self.cluster.wait(posted(self.reviews, body, path=path))

    def ask(self, namespace: str = "ml-workloads", pod: Manifest = TWO_GPUS) -> Answer:
        return self.post(review(pod, namespace=namespace))

    def metrics(self) -> list[str]:
        """The lines of a scrape."""
        vitals = replace(self.gates.add_to(self.caches.vitals()), ready=not self.waiting_for)
        _, body = Exposition(lambda: families(self.reviews.counts, vitals)).answer("")
        return body.decode().splitlines()

    def lines(self, *messages: str) -> list[Manifest]:
        """What it has logged so far with one of these messages."""
        complete = self.log.read_bytes().rpartition(b"\n")[0].splitlines()
        return [line for line in map(json.loads, complete) if line["message"] in messages]

    def said(self) -> list[str]:
        """What it has logged about the state of the cluster."""
        return [str(line["text"]) for line in self.lines("state")]


StartLive = Callable[..., LiveServer]


@pytest.fixture
def start_live(cluster: Cluster, tmp_path: Path) -> Iterator[StartLive]:
    """Starts the reviews with this text of a configuration, and waits until the cluster is known."""
    running: list[LiveServer] = []

    def start(config: str = "", *, ready: bool = True) -> LiveServer:
        server = cluster.wait(_open(cluster, config, tmp_path / f"live-{len(running)}"))
        running.append(server)
        if ready:
            until(lambda: not server.waiting_for, "readiness")
        return server

    yield start
    for server in running:
        cluster.wait(server.parts.aclose())
        assert not server.lines("bug")


async def _open(cluster: Cluster, config: str, directory: Path) -> LiveServer:
    directory.mkdir()
    (directory / "config.yaml").write_text(config)
    settings, policy = read_settings(directory / "config.yaml")
    descriptor = os.open(directory / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    log = ReviewLog(descriptor)
    live = LiveCluster(cluster.kubeconfig, seconds=policy.binding.read_seconds)
    caches = live.caches(OWN, OWN, policy, log)
    gates = live.gates(caches, OWN, policy, log)
    claims = live.claims(caches.state.pools)
    counts = Counts(lambda: live.lost)
    answers = create_app(settings, policy, caches.state, log, counts, live.pods, live, claims)
    server = LiveServer(cluster, App(answers, counts), caches, gates, directory / "log")
    server.parts.callback(os.close, descriptor)
    for part in (live, caches, gates):
        await part.open()
        server.parts.push_async_callback(part.close)
    return server

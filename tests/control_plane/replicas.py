"""What a replica of the webhook knows of a real cluster, as ``serve`` keeps it, with the log thrown away."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webhook.decisions.configuration import AdmitPolicy
from webhook.programs.log import Log
from webhook.programs.server.caches import ClusterCaches
from webhook.programs.server.cluster_access import LiveCluster

DEADLINE_S = 90.0


@dataclass(frozen=True)
class Replica:
    """One of them; ``live`` is what reads the API server beside the caches."""

    live: LiveCluster
    caches: ClusterCaches
    log: Log

    async def ready(self) -> None:
        """Returns once everything is known."""
        await until(lambda: self.caches.state.ready, lambda: self.caches.state.waiting_for)


@asynccontextmanager
async def replica(kubeconfig: Path, namespace: str, rules: AdmitPolicy) -> AsyncIterator[Replica]:
    """It begins to hear of the cluster; agents publish in the same namespace."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    live, log = LiveCluster(kubeconfig, seconds=60.0), Log(descriptor)
    caches = live.caches(namespace, namespace, rules, log)
    await caches.open()
    try:
        yield Replica(live, caches, log)
    finally:
        await caches.close()
        await live.close()
        os.close(descriptor)


async def until(condition: Callable[[], Any], what: Callable[[], object]) -> None:
    """Returns once the condition holds; ``what`` says what is there instead."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what()
        await asyncio.sleep(0.02)

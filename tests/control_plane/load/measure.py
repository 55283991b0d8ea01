"""Pods created at a rate, and what their admission costs: in calls, in time, in CPU and in memory."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kubernetes.client import CoreV1Api

from bench.proc import busy_ns, cpu_ns
from tests.control_plane.api_metrics import Histogram, asked, histogram_of
from tests.control_plane.hami.planning import Planner
from tests.control_plane.hami.team import OPTED_IN, PERMISSIONS, create_namespace
from tests.control_plane.installation import Installation
from tests.control_plane.load.client import Sent, send
from tests.control_plane.load.cluster import Cluster, resident
from tests.control_plane.load.plan import Plan, is_prepared, pods_of

PODS_WEBHOOK = "pods.gpu.topology"
OWN_DURATION = "gpu_topology_admission_seconds"
PAGE = 500


@dataclass
class Use:
    """What the replicas and the machine used meanwhile.

    Attributes:
        cores: Of each replica, as a share of one core.
        machine: Of all cores of the machine.
        planner: Seconds of CPU of the planner, if there is one.
    """

    cores: tuple[float, ...] = ()
    planner: float | None = None
    machine: float = 0.0


@dataclass(frozen=True)
class Findings:
    """What the plan came to.

    Attributes:
        plan: What was asked for.
        without: What the client saw in a namespace that has not opted in: that is the machine without us.
        injected: What it saw in one that has.
        waited: How long the API server waited for us, by its own metrics, in seconds.
        own: How long our replicas took, by theirs.
        lost: Calls of our webhook that failed.
        prepared: Pods that are stored with what we add.
        use: CPU while pods of the namespace that has opted in were created.
        memory: MiB resident of each replica afterwards.
    """

    plan: Plan
    without: Sent
    injected: Sent
    waited: Histogram
    own: Histogram
    lost: int
    prepared: int
    use: Use
    memory: tuple[float, ...]

    @property
    def faults(self) -> list[str]:
        """What is not as it should be; nothing here is about time."""
        found = [*self.without.faults, *self.injected.faults]
        if self.prepared != self.plan.pods:
            found.append(f"{self.prepared:,} of {self.plan.pods:,} pods are stored with what we add")
        if self.lost:
            found.append(f"{self.lost:,} calls of our webhook failed")
        return found


def measure(plan: Plan, cluster: Cluster, planner: Planner | None = None) -> Findings:
    """Create the pods of the plan twice: where nobody asks us, and where whoever is registered is asked."""
    ours, plane = cluster.ours, cluster.ours.control_plane
    with plane.client() as client:
        admin = CoreV1Api(client)
        others, team = create_namespace(admin, {}), create_namespace(admin, OPTED_IN | PERMISSIONS)
        without = send(plane, pods_of(others, plan.pods, wanted=b""), plan.rate)
        before, own_before = asked(plane, PODS_WEBHOOK), own_durations(ours)
        with using(ours, planner) as use:
            injected = send(plane, pods_of(team, plan.pods, wanted=b"gpu.topology/injected"), plan.rate)
        after, own_after = asked(plane, PODS_WEBHOOK), own_durations(ours)
        return Findings(
            plan=plan,
            without=without,
            injected=injected,
            waited=after.duration.since(before.duration),
            own=own_after.since(own_before),
            lost=after.not_reached - before.not_reached,
            prepared=prepared_pods(admin, team),
            use=use,
            memory=resident(ours),
        )


def prepared_pods(admin: CoreV1Api, namespace: str) -> int:
    """How many pods there are that have what we add."""
    prepared, following = 0, ""
    while True:
        page: Any = admin.list_namespaced_pod(namespace, limit=PAGE, _continue=following, _preload_content=False)
        content = json.loads(page.data)
        prepared += sum(is_prepared(each) for each in content["items"])
        if not (following := content["metadata"].get("continue", "")):
            return prepared


@contextmanager
def using(ours: Installation, planner: Planner | None) -> Iterator[Use]:
    """Fills in at its end what was used since its beginning."""
    use, cores = Use(), os.sched_getaffinity(0)
    chooser = planner.program.process.pid if planner else None
    chose = cpu_ns(chooser) if chooser else 0
    pids = [replica.process.pid for _, replica in sorted(ours.replicas.items())]
    before, busy_before, begin = [cpu_ns(pid) for pid in pids], busy_ns(cores), time.monotonic_ns()
    yield use
    passed = time.monotonic_ns() - begin
    use.cores = tuple((cpu_ns(pid) - spent) / passed for pid, spent in zip(pids, before, strict=True))
    use.planner = (cpu_ns(chooser) - chose) / 1e9 if chooser else None
    use.machine = (busy_ns(cores) - busy_before) / passed / len(cores)


def own_durations(ours: Installation) -> Histogram:
    """Of reviews of pods, of both replicas."""
    return histogram_of([line for lines in ours.metrics() for line in lines], OWN_DURATION)

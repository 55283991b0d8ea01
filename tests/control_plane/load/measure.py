"""Pods created at a rate, and what their admission costs: in calls, in time, in CPU and in memory."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kubernetes.client import CoreV1Api
from rich.console import Console
from rich.table import Table

from bench.proc import busy_ns, cpu_ns
from tests.control_plane.api_metrics import Histogram, asked, histogram_of
from tests.control_plane.hami.planning import Planner
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.scheduler import USER
from tests.control_plane.hami.team import OPTED_IN, PERMISSIONS, create_namespace
from tests.control_plane.installation import Installation
from tests.control_plane.load.client import Request, Sent, send
from tests.control_plane.load.nodes import Cluster, resident

PODS_WEBHOOK = "pods.gpu.topology"
OWN_DURATION = "gpu_topology_admission_seconds"
PAGE = 500


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


FAULTS_SHOWN = 5


def report(found: Findings, cluster: Cluster) -> None:
    """Print everything."""
    console = Console(highlight=False, soft_wrap=True)
    plan = found.plan
    console.print(table(found.without, found.injected))
    console.print(f"The API server waited for us ({found.waited.count:,} calls): {described(found.waited)}.")
    console.print(f"Our replicas took, by their own clocks: {described(found.own)}.")
    console.print(f"CPU of our replicas: {' and '.join(f'{share:.0%}' for share in found.use.cores)} of a core.")
    if found.use.planner is not None:
        console.print(f"CPU of the planner meanwhile: {found.use.planner:.2f} s.")
    console.print(f"All {os.cpu_count()} cores of the machine were busy to {found.use.machine:.0%}.")
    moments = {
        "at the start": cluster.memory[0],
        f"with {cluster.nodes:,} nodes": cluster.memory[1],
        f"after {plan.pods:,} pods": found.memory,
    }
    for moment, replicas in moments.items():
        mebibytes = " and ".join(f"{mib:.0f}" for mib in replicas)
        console.print(f"Resident memory of our replicas {moment}: {mebibytes} MiB.")
    console.print(
        f"Pods stored with what we add: {found.prepared:,} of {plan.pods:,}; "
        f"calls of our webhook that failed: {found.lost}."
    )
    for fault in found.faults[:FAULTS_SHOWN]:
        console.print(f"Not as wanted: {fault}")


def table(without: Sent, injected: Sent) -> Table:
    """What the client saw."""
    made = Table(title="Creations of pods as the client sees them, from when each was due")
    made.add_column("")
    for heading in ("pods/s", "p50 ms", "p99 ms", "max ms"):
        made.add_column(heading, justify="right")
    for name, sent in (("not asked", without), ("with our webhook", injected)):
        latencies = [sent.latencies[int(share * (len(sent.latencies) - 1))] for share in (0.5, 0.99, 1.0)]
        made.add_row(name, f"{sent.per_second:.0f}", *(f"{1000 * latency:.1f}" for latency in latencies))
    return made


def described(seen: Histogram) -> str:
    """Quantiles and shares, in milliseconds."""
    if not seen.count:
        return "nothing was seen"
    shares = []
    for bound, count in sorted(seen.cumulative.items()):
        shares.append(f"{count / seen.count:.2%} within {1000 * bound:g} ms")
        if count == seen.count:
            break
    return f"p50 {1000 * seen.quantile(0.5):.1f} ms, p99 {1000 * seen.quantile(0.99):.1f} ms ({', '.join(shares)})"

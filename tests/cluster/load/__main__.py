"""``python -m tests.cluster.load``: pods created at a rate, and what their admission costs.

The API server's own metrics tell how long it waits for our webhook. Its buckets are coarse, so our own are shown too,
and what the client sees. The same pods go first to a namespace that has not opted in: that is the machine without us.
Nothing schedules the pods. Everything shares the cores of this machine: API server, etcd, the stand-in for the Service
(a proxy in Python), the client and two replicas.

Exit codes: 0 every pod was stored as it should be, 1 one was not, or a program failed.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from kubernetes.client import CoreV1Api
from rich.console import Console
from rich.table import Table

from bench.proc import busy_ns, cpu_ns, resident_mib
from tests.cluster.api_metrics import Asked, Histogram, asked, histogram_of
from tests.cluster.control_plane import Binaries, running_control_plane
from tests.cluster.hami.pods import container, pod
from tests.cluster.hami.scheduler import USER
from tests.cluster.hami.team import OPTED_IN, PERMISSIONS, create_namespace
from tests.cluster.installation import Installation, installed, registered
from tests.cluster.load.client import Request, Sent, send
from tests.cluster.load.nodes import create_nodes, machines
from tests.cluster.processes import NotRunningError
from tests.programs.build import required
from tests.programs.catalogue import ETCD, KUBE_APISERVER
from tests.server.conftest import until

PODS_WEBHOOK = "pods.gpu.topology"
OURS = "gpu_topology_admission_seconds"
PAGE = 500


@dataclass(frozen=True)
class Plan:
    """How much.

    Attributes:
        direct: Whether the API server asks the first replica, and not the Service.
    """

    nodes: int
    rate: float
    seconds: float
    direct: bool

    @property
    def pods(self) -> int:
        """To be created."""
        return int(self.rate * self.seconds)


@dataclass
class Use:
    """What the replicas and the machine used meanwhile.

    Attributes:
        cores: Of each replica, as a share of one core.
        machine: Of all cores of the machine.
    """

    cores: tuple[float, ...] = ()
    machine: float = 0.0


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.load", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=200.0, help="pods a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--direct", action="store_true", help="one replica, without the stand-in for the Service")
    plan = Plan(**vars(parser.parse_args(arguments)))
    directory = Path(tempfile.mkdtemp(prefix="gpu-topology-load-"))
    try:
        binaries = Binaries(etcd=required(ETCD), kube_apiserver=required(KUBE_APISERVER))
        for part in ("control-plane", "ours"):
            (directory / part).mkdir()
        with (
            running_control_plane(binaries, directory / "control-plane") as control_plane,
            installed(control_plane, directory / "ours", {}, directory, hami="2.10.0") as ours,
        ):
            return measure(plan, ours, Console(highlight=False, soft_wrap=True))
    except (LookupError, NotRunningError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory)


def measure(plan: Plan, ours: Installation, console: Console) -> int:
    """Print what the plan comes to; returns the exit code."""
    memory = {"at the start": resident(ours)}
    console.print(f"Creating {plan.nodes:,} nodes with their topologies ...")
    create_nodes(ours.control_plane, machines(plan.nodes))
    until(lambda: all(value == plan.nodes for value in known_nodes(ours)), "replicas that know all nodes")
    memory[f"with {plan.nodes:,} nodes"] = resident(ours)
    with ours.control_plane.client() as client:
        admin = CoreV1Api(client)
        others, team = create_namespace(admin, {}), create_namespace(admin, OPTED_IN | PERMISSIONS)
        asks = replace(ours, url=f"https://127.0.0.1:{ours.ports[0][0]}") if plan.direct else ours
        with registered(ours, asks.registration(scheduler=USER)):
            console.print(f"Creating {plan.pods:,} pods twice, {plan.rate:g} a second ...")
            without = send(ours.control_plane, pods_of(others, plan.pods, wanted=b""), plan.rate)
            before, own_before = asked(ours.control_plane, PODS_WEBHOOK), own_durations(ours)
            with using(ours) as use:
                injected = send(
                    ours.control_plane, pods_of(team, plan.pods, wanted=b"gpu.topology/injected"), plan.rate
                )
            after, own_after = asked(ours.control_plane, PODS_WEBHOOK), own_durations(ours)
        memory[f"after {plan.pods:,} pods"] = resident(ours)
        prepared = prepared_pods(admin, team)
    console.print(table(without, injected))
    said = since(after, before)
    console.print(f"The API server waited for us ({said.count:,} calls): {described(said)}.")
    console.print(f"Our replicas took, by their own clocks: {described(own_after.since(own_before))}.")
    console.print(f"CPU of our replicas: {' and '.join(f'{share:.0%}' for share in use.cores)} of a core.")
    console.print(f"All {os.cpu_count()} cores of the machine were busy to {use.machine:.0%}.")
    for moment, each in memory.items():
        console.print(f"Resident memory of our replicas {moment}: {' and '.join(f'{mib:.0f}' for mib in each)} MiB.")
    lost = after.not_reached - before.not_reached
    faults = [*without.faults, *injected.faults]
    console.print(
        f"Pods stored with what we add: {prepared:,} of {plan.pods:,}; calls of our webhook that failed: {lost}."
    )
    for fault in faults[:5]:
        console.print(f"Not as wanted: {fault}")
    return 0 if (prepared, lost, faults) == (plan.pods, 0, []) else 1


def pods_of(namespace: str, count: int, *, wanted: bytes) -> list[Request]:
    """Pods with eight GPUs, and pairs of pods with two, in turn."""
    kinds = (pod("NAME", container(gpus=8)), pod("NAME", container(gpus=2), annotations={"profile": "node-peers"}))
    bodies = [json.dumps(kind).encode() for kind in kinds]
    path = f"/api/v1/namespaces/{namespace}/pods"
    return [Request(path, bodies[number % 2].replace(b"NAME", b"pod-%06d" % number), wanted) for number in range(count)]


def prepared_pods(admin: CoreV1Api, namespace: str) -> int:
    """How many pods there are that have the mark, whole cards, and HAMi's preload turned off."""
    prepared, following = 0, ""
    while True:
        page: Any = admin.list_namespaced_pod(namespace, limit=PAGE, _continue=following, _preload_content=False)
        content = json.loads(page.data)
        prepared += sum(is_prepared(each) for each in content["items"])
        if not (following := content["metadata"].get("continue", "")):
            return prepared


def is_prepared(stored: Mapping[str, Any]) -> bool:
    """Whether the pod has what every profile adds."""
    (worker,) = stored["spec"]["containers"]
    literals = {variable["name"]: variable.get("value") for variable in worker.get("env", [])}
    return (
        "gpu.topology/injected" in stored["metadata"]["annotations"]
        and worker["resources"]["limits"].get("nvidia.com/gpucores") == "100"
        and literals.get("CUDA_DISABLE_CONTROL") == "true"
    )


@contextmanager
def using(ours: Installation) -> Iterator[Use]:
    """Fills in at its end what was used since its beginning."""
    use, cores = Use(), os.sched_getaffinity(0)
    pids = [replica.process.pid for _, replica in sorted(ours.replicas.items())]
    before, busy_before, begin = [cpu_ns(pid) for pid in pids], busy_ns(cores), time.monotonic_ns()
    yield use
    passed = time.monotonic_ns() - begin
    use.cores = tuple((cpu_ns(pid) - spent) / passed for pid, spent in zip(pids, before, strict=True))
    use.machine = (busy_ns(cores) - busy_before) / passed / len(cores)


def resident(ours: Installation) -> tuple[float, ...]:
    """MiB of each replica."""
    return tuple(resident_mib(replica.process.pid) for _, replica in sorted(ours.replicas.items()))


def known_nodes(ours: Installation) -> list[float]:
    """How many nodes with a fresh topology each replica knows."""
    wanted = 'gpu_topology_nodes{topology="fresh"} '
    return [
        float(line.removeprefix(wanted))
        for text in exposed(ours)
        for line in text.splitlines()
        if line.startswith(wanted)
    ]


def own_durations(ours: Installation) -> Histogram:
    """Of reviews of pods, of both replicas."""
    return histogram_of([line for text in exposed(ours) for line in text.splitlines()], OURS)


def exposed(ours: Installation) -> list[str]:
    """The metrics of each replica."""
    return [httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text for _, port in ours.ports]


def since(after: Asked, before: Asked) -> Histogram:
    return after.duration.since(before.duration)


def described(seen: Histogram) -> str:
    """Quantiles and shares, in milliseconds."""
    shares = []
    for bound, count in sorted(seen.cumulative.items()):
        shares.append(f"{count / seen.count:.2%} within {1000 * bound:g} ms")
        if count == seen.count:
            break
    return f"p50 {1000 * seen.quantile(0.5):.1f} ms, p99 {1000 * seen.quantile(0.99):.1f} ms ({', '.join(shares)})"


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m bench.placement`: the planner's cost of choosing nodes and cards.

The cluster: 2,000 nodes of eight cards, a quarter each with H20, A100 on NVSwitches, A100 PCIe in bridged pairs, and
L40S without NVLinks. A fifth of the nodes is empty. At random, 60 % of the 16,000 cards are in use, each by a pod of
its own, and other pods fill up to 20,000. A number of milliseconds describes the machine as much as the code.

- `choice`: CPU time of a whole round with one new pod of 1, 2, 4 or 8 cards, until its patch is known. Its cards are
  then in use, and as many others get free.
- `500 at once`: CPU time of all rounds until 500 gated pods are pinned, where HAMi binds each at once. To apply the
  patches is the work of the API server and is not counted; to read the changed pods is counted.
- `in vain`: CPU time of a round with 500 pods with `on-violation: deny`, for which no cards are free.
- `memory`: the resident memory of a process that has all of this.

`--simulate`: 10,000 nodes with 80,000 cards, and pods that come and go. It prints choices per second of CPU time,
memory, and the bytes that a replica reads from the API server on a day with 100,000 pods with cards and 500,000 others,
as `bench/traffic.py` estimates them.

A missed target does not change the exit code.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from statistics import median, quantiles
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench import proc, selection, traffic
from tests.control_plane.hami.nodes import node_manifest
from tests.hardware.topology.machines import h20, hgx_a100, l40s
from webhook.decisions.configuration import admit_policy, parse_config
from webhook.decisions.node_record import read_node
from webhook.decisions.place.planner import Planner
from webhook.decisions.place.pod import PodRecord, read_pod
from webhook.decisions.place.world import World
from webhook.decisions.place.writes import Write
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.pod import Namespace

NODES, PODS, CARDS_PER_NODE = 2_000, 20_000, 8
BIG_NODES, BIG_PODS, ARRIVALS = 10_000, 100_000, 5_000
ARRIVALS_OF_A_DAY, OTHERS_OF_A_DAY = 100_000, 500_000
MIB = 1024 * 1024
IN_USE, EMPTY = 0.6, 0.2
CHOICES, WAITING, VAIN_ROUNDS = 400, 500, 5
SIZES = (1, 1, 1, 2, 2, 4, 8)
MAX_MEDIAN_MS, MAX_P99_MS, MAX_500_S, MAX_VAIN_MS, MAX_MIB = 5.0, 25.0, 10.0, 500.0, 250.0
AT = datetime(2026, 11, 22, tzinfo=UTC)
GATE = "gpu.topology/place"
PAIRS = {(0, 1): 12, (2, 3): 12, (4, 5): 12, (6, 7): 12}
Object = dict[str, Any]
_MEASURE_MEMORY = "--memory-of"
TEN_TIMES = """
A choice grows with the stocks, the different sets of free cards on machines that are built differently, and not with
the nodes. For ten times as many nodes and pods other things would have to change:
- Memory is kept for each pod, whether it has cards or not. Of pods without cards only sums for each node are needed.
- At the start all pods and nodes are listed and decoded in one process. Planners that each have some pools of nodes
  would divide this, and pods would have to name their pool.
- Pods with cards are a seventh of what is read. The rest is the status of nodes that did not change, renewals of
  agents, and pods without cards, of which requests and node matter. The API server cannot leave that out, and each
  replica reads all of it: one reader would have to pass on only what changes a decision.
- What a waiting pod is told looks at every node, once a round for pods that ask the same. The nodes with the most free
  cards would have to be kept in order.
- A node takes one pod at a time, and 16 pods in all are on their way: HAMi's speed is the limit, not the choice."""


@dataclass(kw_only=True)
class Cluster:
    """The pods and nodes of the planner, and the part of the API server and of HAMi."""

    planner: Planner
    world: World
    random: random.Random
    records: dict[str, PodRecord] = field(default_factory=dict)
    documents: dict[str, Object] = field(default_factory=dict)
    """The JSON of the pods without a node."""
    holders: list[str] = field(default_factory=list)
    """The keys of the pods with cards."""
    taken: dict[str, list[int]] = field(default_factory=dict)
    """The cards in use, by node."""
    now: float = 1000.0
    created: int = 0

    def tell(self, key: str, document: Object | None) -> None:
        """Reports a pod to the planner by its JSON; None is a deleted pod."""
        before, after = self.records.pop(key, None), None
        if document is not None:
            self.records[key] = after = read_pod(msgspec.json.encode(document), key, before)
        self.world.pod_changed(key, before, after)

    def create(self, count: int, *, options: Mapping[str, str] | None = None) -> str:
        """Creates a gated pod; returns its key."""
        self.created += 1
        name = f"train-{self.created}"
        self.documents[f"team/{name}"] = pod = gated(name, count, options or {})
        self.tell(f"team/{name}", pod)
        return f"team/{name}"

    def decide(self) -> list[Write]:
        """Makes a round, and returns its writes."""
        self.now += 0.01
        return self.planner.decide(self.now, AT)

    def bind(self, key: str) -> None:
        """Binds a pod to the cards that it is pinned to, as HAMi does."""
        pod = self.documents.pop(key)
        metadata = pod["metadata"]
        cards = metadata["annotations"]["nvidia.com/use-gpuuuid"].split(",")
        node = cards[0].removeprefix("GPU-").rpartition(".")[0]
        metadata["annotations"] |= allocation(node, cards)
        pod["spec"]["nodeName"] = node
        self.holders.append(key)
        self.tell(key, pod)

    def end_one(self) -> None:
        """Deletes a random pod that has cards."""
        position = self.random.randrange(len(self.holders))
        key, self.holders[position] = self.holders[position], self.holders[-1]
        self.holders.pop()
        self.tell(key, None)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured value."""

    name: str
    value: float
    unit: str
    target: float | None = None


def machines() -> tuple[NodeTopology, ...]:
    """Returns one machine of each kind."""
    return hgx_a100(), h20(), selection.linked(CARDS_PER_NODE, PAIRS), l40s()


def named(topology: NodeTopology, node: str) -> NodeTopology:
    """Returns the machine as a node with a name."""
    gpus = tuple(replace(gpu, uuid=f"GPU-{node}.{gpu.index}") for gpu in topology.gpus)
    return replace(topology, node=node, gpus=gpus)


def cluster(nodes: int, pods: int) -> Cluster:
    """Makes a cluster of nodes with pods on them."""
    world = World()
    policy = admit_policy(parse_config({"placement": {"mode": "on"}}), version="1.0.0")
    namespace = Namespace("team", {"gpu.topology/injection": "enabled"}, {})
    made = Cluster(
        planner=Planner(world, policy, namespaces=lambda _: namespace),
        world=world,
        random=random.Random("placement"),  # noqa: S311 - no secret
    )
    kinds = machines()
    for number in range(nodes):
        topology = named(kinds[number % len(kinds)], f"node-{number:05}")
        document = msgspec.json.encode(node_manifest(topology))
        world.node_changed(topology.node, read_node(document, topology.node, None), topology)
    for node, index in in_use(nodes, made.random):
        key = f"team/holder-{node}-{index}"
        pod = gated(key.partition("/")[2], 1, {})
        del pod["spec"]["schedulingGates"]
        pod["spec"]["nodeName"] = node
        pod["metadata"]["annotations"] |= allocation(node, [f"GPU-{node}.{index}"])
        pod["status"] = {"phase": "Running"}
        made.tell(key, pod)
        made.holders.append(key)
    for number in range(pods - len(made.holders)):
        made.tell(f"web/web-{number}", plain(f"web-{number}", f"node-{number % nodes:05}"))
    return made


def in_use(nodes: int, chance: random.Random) -> Iterator[tuple[str, int]]:
    """Yields random cards in use, and leaves some nodes empty."""
    for number in range(nodes):
        share = 0.0 if chance.random() < EMPTY else IN_USE / (1 - EMPTY)
        for index in range(CARDS_PER_NODE):
            if chance.random() < share:
                yield f"node-{number:05}", index


def gated(name: str, count: int, options: Mapping[str, str]) -> Object:
    """Returns a pod as it is after admission."""
    given = {f"gpu.topology/{key}": value for key, value in options.items()}
    limits = {"nvidia.com/gpu": count, "nvidia.com/gpucores": 100, "cpu": "1", "memory": "4Gi"}
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-22T00:00:00Z",
            "labels": {"app": "train", "gpu.topology/placement": "waiting"},
            "annotations": {"gpu.topology/injected": "1.0.0/exclusive", **given},
        },
        "spec": {
            "schedulerName": "hami-scheduler",
            "schedulingGates": [{"name": GATE}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "env": [{"name": f"NCCL_SETTING_{number}", "value": "1"} for number in range(20)],
                    "resources": {"limits": limits, "requests": limits},
                }
            ],
        },
        "status": {"phase": "Pending"},
    }


def plain(name: str, node: str) -> Object:
    """Returns a pod without cards."""
    requests = {"cpu": "100m", "memory": "128Mi"}
    return {
        "metadata": {"name": name, "namespace": "web", "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": requests}}]},
        "status": {"phase": "Running"},
    }


def allocation(node: str, cards: list[str], *, memory_mib: int = 81920, cores: int = 100) -> Mapping[str, str]:
    """Returns the annotations of an allocation, as HAMi writes them."""
    devices = "".join(f"{card},NVIDIA,{memory_mib},{cores}:" for card in cards)
    return {"hami.io/vgpu-node": node, "hami.io/vgpu-devices-allocated": f"{devices};"}


def applied(document: Object, write: Write) -> None:
    """Applies a patch that is known to fit, in place of the API server and with as little work as possible."""
    for operation in write.patch:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation.path.split("/")[1:]]
        place: Any = document
        for part in parents:
            place = place[int(part) if isinstance(place, list) else part]
        if operation.op == "add":
            place[last] = operation.value
        elif operation.op == "remove":
            del place[int(last) if isinstance(place, list) else last]


def choices(made: Cluster, number: int) -> list[float]:
    """Returns the CPU milliseconds of rounds with one new pod."""
    times = []
    for _ in range(number):
        key = made.create(made.random.choice(SIZES))
        begin = time.process_time()
        writes = made.decide()
        times.append((time.process_time() - begin) * 1e3)
        for write in writes:
            if write.patch:
                applied(made.documents[write.key], write)
                made.bind(write.key)
                for _ in range(len(made.records[write.key].held)):
                    made.end_one()
        if key in made.documents:
            made.tell(key, None)
            del made.documents[key]
    return times


def many_at_once(made: Cluster, number: int) -> tuple[float, int]:
    """Returns the CPU seconds and the rounds until `number` pods are pinned."""
    keys = {made.create(made.random.choice(SIZES)) for _ in range(number)}
    spent, rounds = 0.0, 0
    while keys and rounds < number:
        rounds += 1
        begin = time.process_time()
        writes = made.decide()
        spent += time.process_time() - begin
        for write in writes:
            if write.patch and write.key in keys:
                applied(made.documents[write.key], write)
                begin = time.process_time()
                made.tell(write.key, made.documents[write.key])
                spent += time.process_time() - begin
                made.bind(write.key)
                keys.discard(write.key)
    return spent, rounds


def in_vain(made: Cluster, number: int, rounds: int) -> float:
    """Returns the CPU milliseconds of a round with pods for which there are no cards."""
    every = {"on-violation": "deny", "min-bandwidth": "100000"}
    keys = [made.create(2 + position % 7, options=every) for position in range(number)]
    made.decide()
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        made.decide()
        times.append((time.process_time() - begin) * 1e3)
    for key in keys:
        made.tell(key, None)
        del made.documents[key]
    return median(times)


def simulate(nodes: int, pods: int, arrivals: int) -> Iterator[Figure]:
    """Yields the figures of a simulation in which pods come, are bound and end, at a steady occupancy."""
    made = cluster(nodes, pods)
    times = choices(made, arrivals)
    yield Figure(name=f"{nodes:,} nodes: choice, median", value=median(times), unit="ms")
    yield Figure(name=f"{nodes:,} nodes: choice, p99", value=p99(times), unit="ms")
    yield Figure(name=f"{nodes:,} nodes: choices per second", value=1e3 * len(times) / sum(times), unit="")
    yield Figure(name=f"{nodes:,} nodes: memory", value=proc.resident_mib(os.getpid()), unit="MiB")
    day = traffic.Day(
        nodes=nodes, pods=pods, holders=len(made.holders), arrivals=ARRIVALS_OF_A_DAY, others=OTHERS_OF_A_DAY
    )
    yield Figure(name="read at the start", value=traffic.at_the_start(day) / MIB, unit="MiB")
    for what, size in traffic.watched(day):
        yield Figure(name=f"read in a day: {what}", value=size / MIB, unit="MiB")
    mean = sum(size for _, size in traffic.watched(day)) / traffic.DAY / 1024
    yield Figure(name="read in a second, mean", value=mean, unit="KiB")


def p99(times: list[float]) -> float:
    """Returns the 99th percentile."""
    return quantiles(times, n=100)[98]


def measured() -> Iterator[Figure]:
    """Yields all figures except those of the simulation."""
    made = cluster(NODES, PODS)
    times = choices(made, CHOICES)
    yield Figure(name="choice, median", value=median(times), unit="ms", target=MAX_MEDIAN_MS)
    yield Figure(name="choice, p99", value=p99(times), unit="ms", target=MAX_P99_MS)
    yield Figure(name="choice, first", value=times[0], unit="ms")
    spent, rounds = many_at_once(made, WAITING)
    yield Figure(name=f"{WAITING} at once, {rounds} rounds", value=spent, unit="s", target=MAX_500_S)
    vain = in_vain(made, WAITING, VAIN_ROUNDS)
    yield Figure(name=f"{WAITING} in vain, a round", value=vain, unit="ms", target=MAX_VAIN_MS)
    memory = float(subprocess.check_output([sys.executable, "-m", "bench.placement", _MEASURE_MEMORY], text=True))
    yield Figure(name=f"memory, {PODS:,} pods", value=memory, unit="MiB", target=MAX_MIB)


def main() -> int:
    """Measures, prints, and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.placement", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulate", action="store_true", help="10,000 nodes, and the pods of a day")
    parser.add_argument(_MEASURE_MEMORY, action="store_true", dest="memory", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        made = cluster(NODES, PODS)
        made.decide()
        print(proc.resident_mib(os.getpid()))
        return 0
    figures: Callable[[], Iterator[Figure]] = measured
    if arguments.simulate:
        figures = lambda: simulate(BIG_NODES, BIG_PODS, ARRIVALS)  # noqa: E731 - one of two
    console = Console()
    show(figures(), console)
    if arguments.simulate:
        console.print(TEN_TIMES, soft_wrap=True)
    return 0


def show(figures: Iterator[Figure], console: Console) -> None:
    """Prints one line for each figure."""
    table = Table(title="The planner")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column("target", justify="right")
    table.add_column("")
    for figure in figures:
        verdict = ""
        if figure.target is not None:
            verdict = "[green]met[/]" if figure.value <= figure.target else "[red]missed[/]"
        target = f"<= {figure.target:g} {figure.unit}" if figure.target is not None else ""
        table.add_row(figure.name, f"{figure.value:,.2f} {figure.unit}", target, verdict)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.control_plane.hami.placed_rush``: what HAMi makes of random pods, alone and with a planner.

All runs get the same pods at the same moments, drawn with one seed; each lives as long after it is bound as was drawn.
Prints a table in Markdown.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from kubernetes.client import CoreV1Api

from tests.control_plane.control_plane import Binaries
from tests.control_plane.hami.fleet import Fleet, running_fleet
from tests.control_plane.hami.planning import Planner, placing
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.scheduler import Programs
from tests.control_plane.hami.team import Team, annotations_of, cards_of, create_namespace
from tests.go_programs.build import required
from tests.go_programs.catalogue import ETCD, HAMI_SCHEDULERS, KUBE_APISERVER, KUBE_SCHEDULER
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.sets import GpuSet, LinkClass, assess

LOOK_S = 0.1
PATIENCE_S = 150.0
"""After the last pod was created: what has no node then is stuck."""
SIZES = {"slice": 0, "single": 1, "pair": 2, "quad": 4, "eight": 8, "group": 2}
WEIGHTS = {"slice": 25, "single": 20, "pair": 27, "quad": 14, "eight": 6, "group": 8}
GROUP = 2
LINKED = {LinkClass.NVLINK, LinkClass.NVSWITCH}
POLICY = "hami.io/gpu-scheduler-policy"


@dataclass(frozen=True)
class Drawn:
    """One pod."""

    name: str
    kind: str
    at: float
    """Seconds after the begin."""
    lives: float
    """Seconds after it is bound."""
    group: str = ""


@dataclass
class Life:
    """What became of one pod; times are of ``time.monotonic``."""

    drawn: Drawn
    created: float
    bound: float = 0.0
    node: str = ""
    cards: list[str] = field(default_factory=list)
    is_gone: bool = False


def draw(seed: int, pods: int, pace: float, lives: float) -> list[Drawn]:
    """So many pods.

    Args:
        seed: Of the random numbers.
        pods: How many.
        pace: Pods a second.
        lives: Seconds that a pod lives, in the mean.
    """
    chance = random.Random(seed)
    found: list[Drawn] = []
    at = 0.0
    while len(found) < pods:
        (kind,) = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
        life = chance.expovariate(1 / lives)
        group = f"group-{len(found)}" if kind == "group" else ""
        for _ in range(GROUP if group else 1):
            at += chance.expovariate(pace)
            found.append(Drawn(f"pod-{len(found)}", kind, at, life, group))
    return found


@dataclass
class Rush:
    """Pods of one run.

    Attributes:
        twice: Cards that were given to two pods at a time, if one of them has them whole.
    """

    team: Team
    machines: Mapping[str, NodeTopology]
    annotations: Mapping[str, str]
    lives: dict[str, Life] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)

    def run(self, drawn: list[Drawn]) -> None:
        """Create the pods, and delete each when its time is over, until all are gone or no longer waited for."""
        begin, wanted = time.monotonic(), list(reversed(drawn))
        last = begin + drawn[-1].at
        while wanted or any(not life.is_gone for life in self.lives.values()):
            while wanted and time.monotonic() >= begin + wanted[-1].at:
                self._create(wanted.pop())
            self._look()
            if time.monotonic() > last + PATIENCE_S:
                return
            time.sleep(LOOK_S)

    def _create(self, drawn: Drawn) -> None:
        size = SIZES[drawn.kind]
        limits = {"nvidia.com/gpu": str(size)} if size else {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000"}
        annotations = dict(self.annotations) | ({"gpu.topology/group-size": str(GROUP)} if drawn.group else {})
        written = pod(drawn.name, container(resources={"limits": limits}), annotations=annotations)
        if drawn.group:
            written["metadata"]["labels"] = {"gpu.topology/group": drawn.group}
        self.lives[drawn.name] = Life(drawn, time.monotonic())
        self.team.creates(written)

    def _look(self) -> None:
        answer: Any = self.team.admin.list_namespaced_pod(self.team.namespace, _preload_content=False)
        now = time.monotonic()
        holders: dict[str, list[str]] = {}
        for stored in json.loads(answer.data)["items"]:
            name, annotations = stored["metadata"]["name"], annotations_of(stored)
            life = self.lives[name]
            for card in (card for cards in cards_of(stored) for card in cards):
                holders.setdefault(card, []).append(life.drawn.kind)
            if not stored["spec"].get("nodeName") or annotations.get("hami.io/bind-phase") != "success":
                continue
            if not life.bound:
                life.bound, life.node = now, stored["spec"]["nodeName"]
                life.cards = [card for cards in cards_of(stored) for card in cards]
            if now - life.bound >= life.drawn.lives:
                self.team.deletes(name)
                life.is_gone = True
        self.twice |= {card for card, kinds in holders.items() if len(kinds) > 1 and set(kinds) != {"slice"}}

    def sets(self, kind: str = "") -> Iterator[GpuSet]:
        """Those of pods with several cards, on nodes whose name begins like that."""
        for life in self.lives.values():
            if len(life.cards) > 1 and life.node.startswith(kind):
                machine = self.machines[life.node]
                yield assess(machine, [gpu.index for gpu in machine.gpus if gpu.uuid in life.cards])


def row(name: str, rush: Rush, planner: Planner | None) -> str:
    """One line of the table."""
    lives = list(rush.lives.values())
    waits = [life.bound - life.created for life in lives if life.bound]
    sets = list(rush.sets())
    groups: dict[str, set[str]] = {}
    for life in lives:
        if life.drawn.group:
            groups.setdefault(life.drawn.group, set()).add(life.node)
    together = sum(len(nodes) == 1 for nodes in groups.values()) / max(1, len(groups))
    cells = [
        name,
        str(len(lives)),
        share_linked(sets),
        share_linked(list(rush.sets("pairs"))),
        f"{fmean(found.bandwidth for found in sets):.0f}",
        f"{together:.0%}",
        f"{median(waits):.1f}",
        f"{quantiles(waits, n=10)[-1]:.1f}",
        f"{max(waits):.0f}",
        str(sum(not life.bound for life in lives)),
        str(len(rush.twice)),
        counted(planner) if planner else "",
    ]
    return f"| {' | '.join(cells)} |"


COLUMNS = (
    "run",
    "pods",
    "all pairs linked",
    "the same on nodes with bridges",
    "weakest pair, GB/s",
    "groups on one node",
    "bound after, median s",
    "p90 s",
    "max s",
    "stuck",
    "cards twice",
    "planner",
)


def share_linked(sets: list[GpuSet]) -> str:
    """Of how many each pair has NVLink."""
    linked = sum(found.link in LINKED for found in sets)
    return f"{linked / len(sets):.1%} of {len(sets)}" if sets else "none"


def counted(planner: Planner) -> str:
    """What the planner did, by its metrics."""
    found = {}
    for line in planner.metrics():
        for name, key in (("placements_total", "result"), ("planner_bugs_total", "")):
            if line.startswith(f"gpu_topology_{name}"):
                labels, _, value = line.rpartition(" ")
                found[labels.partition('result="')[2].rstrip('"}') if key else "bugs"] = int(float(value))
    return ", ".join(f"{value} {what}" for what, value in found.items() if value)


def again(planner: Planner) -> Iterator[str]:
    """Lines of the log about pods that did not get what was chosen first."""
    for line in planner.program.log.read_text(encoding="utf-8").splitlines():
        if any(f'"result":"{result}"' in line for result in ("repinned", "given-up", "refused", "released", "missed")):
            yield line


@contextmanager
def running_case(case: str, fleet: Fleet, directory: Path) -> Iterator[tuple[Rush, Planner | None]]:
    """The pods of a run: those of HAMi alone are in a namespace that our webhook does not look at."""
    is_placed = case == "place"
    with fleet.control_plane.client() as client, ExitStack() as stack:
        admin = CoreV1Api(client)
        planner = stack.enter_context(placing(fleet.ours, directory)) if is_placed else None
        namespace = create_namespace(admin, {"injection": "enabled"} if is_placed else {})
        team = Team(fleet.control_plane, admin, namespace, fleet.ours.learn)
        annotations = {} if is_placed else {POLICY: case}
        try:
            yield Rush(team, fleet.machines, annotations), planner
        finally:
            team.ends()


def main(arguments: list[str]) -> int:
    """Returns the exit code: 1 if a pod is stuck or a card was given twice with the planner."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", choices=list(HAMI_SCHEDULERS), default="2.10.0", help="of HAMi")
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--pace", type=float, default=2.0, help="pods a second")
    parser.add_argument("--lives", type=float, default=8.0, help="seconds that a pod lives, in the mean")
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--default-speed", action="store_true", help="HAMi asks the API server as often as by default")
    parser.add_argument("cases", nargs="*", help="place, spread, binpack, topology-aware; all if none is named")
    asked = parser.parse_args(arguments)
    binaries = Binaries(etcd=required(ETCD), kube_apiserver=required(KUBE_APISERVER))
    programs = Programs(required(KUBE_SCHEDULER), required(HAMI_SCHEDULERS[asked.release]))
    has_scores = asked.release != "2.9.0"
    cases = asked.cases or ["spread", "binpack", *(["topology-aware"] if has_scores else []), "place"]
    drawn = draw(asked.seed, asked.pods, asked.pace, asked.lives)
    print(f"HAMi {asked.release}, {len(drawn)} pods in {drawn[-1].at:.0f} s, seed {asked.seed}\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    is_well = True
    for case in cases:
        directory = Path(tempfile.mkdtemp(prefix="gpu-topology-rush-"))
        try:
            with ExitStack() as stack:
                fleet = stack.enter_context(
                    running_fleet(
                        binaries,
                        programs,
                        asked.release,
                        directory,
                        is_fast=not asked.default_speed,
                        scores=case == "topology-aware",
                    )
                )
                rush, planner = stack.enter_context(running_case(case, fleet, directory))
                rush.run(drawn)
                print(row(case, rush, planner), flush=True)
                for text in again(planner) if planner else ():
                    print(text, file=sys.stderr, flush=True)
                is_well &= case != "place" or (not rush.twice and all(life.bound for life in rush.lives.values()))
        finally:
            shutil.rmtree(directory)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

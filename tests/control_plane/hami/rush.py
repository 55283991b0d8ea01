"""Many pods at once: created as a controller does, seen on their nodes, and gone as soon as they have their cards."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kubernetes.client import ApiException

from tests.control_plane.hami.team import Team, annotations_of

CREATORS = 4
IN_FLIGHT = 20
"""Pods that are wanted and have not ended."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
"""Between two attempts, doubled each time. A ReplicaSet begins at 5 ms and goes up to minutes (client-go,
DefaultTypedControllerRateLimiter)."""
LOOK_S = 0.1
PATIENCE_S = 60.0

Pod = dict[str, Any]


@dataclass
class Life:
    """What became of one pod; times are of ``time.monotonic``.

    Attributes:
        asked: When it was first sent.
        refusals: What the API server said before it took it.
        accepted: When it was stored.
        bound: When it was first seen with a node.
    """

    asked: float
    refusals: list[str] = field(default_factory=list)
    accepted: float = 0.0
    bound: float = 0.0


@dataclass
class Rush:
    """Pods of one namespace that come and go.

    Attributes:
        lives: Of all pods so far, by their names.
        faults: What was wrong with pods that have a node.
        ended: Names of those that have been bound, and are gone.
    """

    team: Team
    fault_of: Callable[[Pod], str]
    lives: dict[str, Life] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    _room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(IN_FLIGHT))
    _over: threading.Event = field(default_factory=threading.Event)

    def goes_on_until(self, reached: Callable[[], bool], what: str) -> None:
        """Look at the pods until ``reached()`` holds.

        Raises:
            AssertionError: no pod ends for a minute.
        """
        ended, deadline = len(self.ended), time.monotonic() + PATIENCE_S
        while not reached():
            self.look()
            if len(self.ended) > ended:
                ended, deadline = len(self.ended), time.monotonic() + PATIENCE_S
            assert time.monotonic() < deadline, f"{what}: no pod has ended for {PATIENCE_S:.0f} s"
            time.sleep(LOOK_S)

    def wants_more(self, pods: int) -> None:
        """So many pods more at once, as when somebody scales a Deployment up."""
        self._room.release(pods)

    def look(self) -> None:
        """Judge every pod that has a node; those whose cards were handed over end."""
        answer: Any = self.team.admin.list_namespaced_pod(self.team.namespace, _preload_content=False)
        for pod in json.loads(answer.data)["items"]:
            name = pod["metadata"]["name"]
            if not pod["spec"].get("nodeName") or name in self.ended:
                continue
            life = self.lives[name]
            life.bound = life.bound or time.monotonic()
            if fault := self.fault_of(pod):
                self.faults.append(f"{name}: {fault}")
            if annotations_of(pod).get("hami.io/bind-phase") == "success":
                self.team.deletes(name)
                self.ended.add(name)
                self._room.release()

    def create(self, wanted: Iterator[Pod], turn: threading.Lock) -> None:
        """Send one pod after the other; each again until it is stored."""
        while True:
            if not self._room.acquire(timeout=LOOK_S):
                if self._over.is_set():
                    return
                continue
            with turn:
                written = next(wanted, None)
            if written is None or self._over.is_set():
                return
            life = self.lives[written["metadata"]["name"]] = Life(time.monotonic())
            pause = FIRST_PAUSE_S
            while refusal := self._refused(written):
                life.refusals.append(refusal)
                if self._over.wait(pause):
                    return
                pause = min(2 * pause, LONGEST_PAUSE_S)
            life.accepted = time.monotonic()

    def _refused(self, written: Pod) -> str:
        """Why; empty if the pod is stored."""
        try:
            self.team.admin.create_namespaced_pod(
                self.team.namespace,
                written,  # type: ignore[arg-type]  # a model, says its annotation
                _preload_content=False,
            )
        except ApiException as error:
            said: Mapping[str, Any] = json.loads(error.body or "{}")
            return str(said.get("message", error.reason))
        return ""

    def end(self) -> None:
        """No pod is sent any more."""
        self._over.set()


@contextmanager
def rush_of(team: Team, pods: Iterator[Pod], fault_of: Callable[[Pod], str]) -> Iterator[Rush]:
    """Begins to create the pods; at the end no more are sent.

    Args:
        team: Whose pods they are.
        pods: As they are written.
        fault_of: What is wrong with a pod that has a node; empty if nothing is.
    """
    rush = Rush(team, fault_of)
    turn = threading.Lock()
    creators = [threading.Thread(target=rush.create, args=(pods, turn), name="creator") for _ in range(CREATORS)]
    for creator in creators:
        creator.start()
    try:
        yield rush
    finally:
        rush.end()
        for creator in creators:
            creator.join()

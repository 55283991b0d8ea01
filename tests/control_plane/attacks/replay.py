"""An attack and its figures: what it came to, and what it cost everybody else."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from bench.proc import cpu_ns, forget_peak, peak_mib
from tests.control_plane.attacks.stage import Stage, token_of
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import gpu_pod
from webhook.words.names import INJECTED

FAULTS_SHOWN = 8


PAUSE_S = 0.05
TIMEOUT_S = 120.0
ATTEMPTS = 100


@dataclass
class Probes:
    """What became of the pods.

    Attributes:
        sent: How many requests there were.
        waits: What each pod waited until it was created, in seconds.
        most_cpu_ms: The most CPU time of the replica while one of them waited.
        faults: Answers that are not a pod that was injected.
    """

    sent: int = 0
    waits: list[float] = field(default_factory=list)
    most_cpu_ms: float = 0.0
    faults: list[str] = field(default_factory=list)

    def wait(self, share: float) -> float:
        """The seconds within which such a share of the pods was created."""
        return sorted(self.waits)[min(int(share * len(self.waits)), len(self.waits) - 1)]


@contextmanager
def probing(control_plane: ControlPlane, token: str, namespace: str, replica: Callable[[], int]) -> Iterator[Probes]:
    """Creates dry-run pods one after the other in this namespace; one before it begins, and one after its end."""
    found, ending = Probes(), threading.Event()
    place = urlsplit(control_plane.url)
    trust = ssl.create_default_context(cafile=control_plane.ca_file)
    connection = HTTPSConnection(place.hostname or "", place.port, context=trust, timeout=TIMEOUT_S)
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps(gpu_pod("honest", {})).encode()

    def is_created() -> bool:
        found.sent += 1
        try:
            connection.request("POST", path, body=body, headers=headers)
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, HTTPException) as error:
            connection.close()  # the next request opens it again
            found.faults.append(repr(error))
            return False
        if answer.status == 201 and INJECTED.encode() in said:
            return True
        found.faults.append(f"{answer.status}: {said[:300].decode(errors='replace')}")
        return False

    def probe() -> None:
        """One pod, tried again as controllers do."""
        begin, spent = time.monotonic(), _cpu_ms(replica())
        for _ in range(ATTEMPTS):
            if is_created():
                break
            time.sleep(PAUSE_S)
        found.waits.append(time.monotonic() - begin)
        found.most_cpu_ms = max(found.most_cpu_ms, _cpu_ms(replica()) - spent)

    def go() -> None:
        while not ending.wait(PAUSE_S):
            probe()

    probe()
    thread = threading.Thread(target=go, name="honest tenant")
    thread.start()
    try:
        yield found
    finally:
        ending.set()
        thread.join()
        probe()
        connection.close()


def _cpu_ms(replica: int) -> float:
    """The CPU time of the replica; none while it does not run."""
    try:
        return cpu_ns(replica) / 1e6
    except FileNotFoundError:
        return 0.0


@dataclass(frozen=True)
class Found:
    """What an attack came to.

    Attributes:
        said: For a reader, in few words.
        faults: What should not be; nothing here is about time.
    """

    said: str
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attack:
    """One of the attacks.

    Attributes:
        number: Its place in the list.
        name: For a reader.
        run: Does it.
        memory_mib: What the replica may have at most meanwhile.
    """

    number: int
    name: str
    run: Callable[[Stage], Found]
    memory_mib: float = float("inf")


@dataclass(frozen=True)
class Figures:
    """An attack, and what was seen meanwhile.

    Attributes:
        largest_reply: Bytes of the largest reply of the replica to the API server, TLS included.
        replica_mib: The most resident memory of the replica.
        api_server_mib: That of kube-apiserver.
        waits: Seconds that the honest tenant's pods waited: half of them, 99 of 100, and at most.
        cpu_ms: The most CPU time of the replica while one of them waited.
        probes: How many pods they created.
    """

    attack: Attack
    found: Found
    largest_reply: int
    replica_mib: float
    api_server_mib: float
    waits: tuple[float, float, float]
    cpu_ms: float
    probes: int
    disturbed: tuple[str, ...]

    @property
    def faults(self) -> list[str]:
        """What is not as it should be; nothing here is about time."""
        faults = [*self.found.faults, *(f"the other namespace: {fault}" for fault in self.disturbed)]
        if self.replica_mib > self.attack.memory_mib:
            faults.append(f"the replica had {self.replica_mib:.0f} MiB, at most {self.attack.memory_mib:.0f} are meant")
        return faults


def replay(attack: Attack, stage: Stage) -> Figures:
    """Do it to a fresh replica, while somebody creates pods in the other namespace."""
    stage.begin_anew()
    stage.traffic.largest_reply = 0
    forget_peak(stage.api_server)
    plane = stage.control_plane
    with probing(plane, token_of(plane.kubeconfig), stage.others, lambda: stage.replica) as probes:
        found = attack.run(stage)
    return Figures(
        attack=attack,
        found=found,
        largest_reply=stage.traffic.largest_reply,
        replica_mib=peak_mib(stage.replica),
        api_server_mib=peak_mib(stage.api_server),
        waits=(probes.wait(0.5), probes.wait(0.99), probes.wait(1.0)),
        cpu_ms=probes.most_cpu_ms,
        probes=probes.sent,
        disturbed=tuple(probes.faults),
    )


def report(all_figures: Sequence[Figures]) -> None:
    """Print everything."""
    for figures in all_figures:
        half, most, longest = figures.waits
        print(
            f"{figures.attack.number}. {figures.attack.name}: {figures.found.said}. Largest reply "
            f"{figures.largest_reply:,} B; replica {figures.replica_mib:.0f} MiB, API server "
            f"{figures.api_server_mib:.0f} MiB; {figures.probes} pods of others waited {half:.2f}, 99 % {most:.2f}, "
            f"at most {longest:.2f} s, with {figures.cpu_ms:.0f} ms of our CPU"
        )
        for fault in figures.faults[:FAULTS_SHOWN]:
            print(f"   not as it should be: {fault}")

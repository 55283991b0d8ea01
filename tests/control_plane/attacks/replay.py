"""An attack and its figures: what it came to, and what it cost everybody else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.proc import forget_peak, peak_mib
from tests.control_plane.attacks.stage import Stage, honest_tenant

FAULTS_SHOWN = 8


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
    with honest_tenant(stage) as probes:
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
    console = Console(highlight=False, soft_wrap=True, width=200)
    console.print(table(all_figures))
    for figures in all_figures:
        console.print(f"{figures.attack.number}. {figures.attack.name}: {figures.found.said}", markup=False)
        for fault in figures.faults[:FAULTS_SHOWN]:
            console.print(f"   not as it should be: {fault}", markup=False)


def table(all_figures: Sequence[Figures]) -> Table:
    """What each attack cost."""
    made = Table(title="Attacks, while somebody creates pods in another namespace")
    made.add_column("", no_wrap=True)
    for heading in (
        "largest reply",
        "replica",
        "kube-apiserver",
        "waits: half",
        "99 %",
        "longest",
        "our CPU meanwhile",
        "pods",
        "held off",
    ):
        made.add_column(heading, justify="right")
    for figures in all_figures:
        made.add_row(
            f"{figures.attack.number}. {figures.attack.name}",
            f"{figures.largest_reply:,} B",
            f"{figures.replica_mib:.0f} MiB",
            f"{figures.api_server_mib:.0f} MiB",
            *(f"{wait:.2f} s" for wait in figures.waits),
            f"{figures.cpu_ms:.0f} ms",
            str(figures.probes),
            "no" if figures.faults else "yes",
        )
    return made

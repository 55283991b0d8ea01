"""The measurements: interleaved bursts, the start of the process, and memory. This module prints nothing."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench import bindings, bodies, claims, load, proc, servers

CONNECTIONS = (1, 8, 64)
TARGET_CONNECTIONS = 8
"""The number of connections for which targets are stated."""
DISTURBED = 0.15
"""The share of the cores in use above which other processes disturb a burst, so that it is repeated."""
MAX_REPEATS = 3
GROWTH_BURST_S = 1.0
WAKE_S = 0.5
GROWTH_WARM_UP = 10_000
POD_REVIEWS = 10_000
"""The reviews after which the resident memory of a pod is taken. Its later growth is another measurement."""
FEW_NODES, MANY_NODES = 10, 5_000
RESYNC_S = 3.0
"""The interval at which everything is listed again while the row `watching` is loaded. In a cluster this happens once
in days."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The extent of a run."""

    rounds: int
    seconds: float
    """The length of one burst."""
    starts: int
    """The number of timed starts of the process."""
    growth: int
    """The reviews over which the growth of resident memory is taken; 0 leaves it out."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The medians over the rounds of one server under one number of connections."""

    server_us: float
    ratio: float
    """The CPU time of one review, divided by that of the bare server in the same round."""
    per_second: float
    p50_us: float
    p99_us: float
    p99_ratio: float
    """The 99th percentile, divided by that of `injected` in the same round."""
    max_us: float
    """The longest latency of all rounds."""


@dataclass(kw_only=True)
class Bursts:
    """All bursts of the run, by row and number of connections, in the order of the rounds."""

    kept: dict[tuple[str, int], list[load.Burst]] = field(default_factory=dict)
    repeated: int = 0
    """The number of bursts that were discarded because other processes disturbed them."""
    disturbed: int = 0
    """The number of bursts that were kept although they were disturbed, because every repeat was."""

    def take(self, client: load.Client, row: str, loaded: load.Target, connections: int, seconds: float) -> None:
        """Loads a row for one burst, and repeats the burst if other processes disturbed it."""
        with awake(loaded.restless):
            burst = client.burst(loaded, connections, seconds)
            for _ in range(MAX_REPEATS):
                if burst.others <= DISTURBED:
                    break
                self.repeated += 1
                burst = client.burst(loaded, connections, seconds)
        self.disturbed += burst.others > DISTURBED
        self.kept.setdefault((row, connections), []).append(burst)

    def cell(self, row: str, connections: int) -> Cell:
        """Returns the medians of one row. Its ratio is the median of the ratios of the rounds."""
        bursts, floor = self.kept[row, connections], self.kept["bare", connections]
        quiet = self.kept["injected", connections]
        return Cell(
            server_us=median(burst.server_us for burst in bursts),
            ratio=median(own.server_us / bare.server_us for own, bare in zip(bursts, floor, strict=True)),
            per_second=median(burst.per_second for burst in bursts),
            p50_us=median(burst.p50_us for burst in bursts),
            p99_us=median(burst.p99_us for burst in bursts),
            p99_ratio=median(own.p99_us / other.p99_us for own, other in zip(bursts, quiet, strict=True)),
            max_us=max(burst.max_us for burst in bursts),
        )


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The growth of a fresh process's resident memory over many reviews."""

    reviews: int
    before_mib: float
    after_mib: float


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results of one run."""

    bursts: Bursts
    start_ms: Sequence[float]
    """The time from the start of the process to the first answered review, for each start."""
    resident_mib: Mapping[str, float]
    """The resident memory of the webhook, `after start` and `after load`."""
    pod_start_ms: Sequence[float]
    """Like `start_ms`, as a pod of a small cluster whose certificates exist already."""
    pod_mib: Mapping[str, float]
    """The resident memory of such a pod, `after start` and probe, and `after load`."""
    watching_mib: float
    """The resident memory with the state of a big cluster, after start and probe."""
    growth: Growth | None


def run(plan: Plan, directory: Path, say: Callable[[str], None]) -> Results:
    """Measures everything. `directory` is for certificates and state; `say` is called with the name of each step."""
    server_core, client_core = proc.core_pair()
    skipped, injected = bodies.request("cpu"), bodies.request("gpu")
    with ExitStack() as stack:
        # Entered first, so ended last: a burst in flight ends at once when its server is gone.
        client = stack.enter_context(load.client(client_core))
        say("starting the servers")
        bare = stack.enter_context(servers.running(servers.bare(directory / "bare"), server_core, injected))
        webhook = stack.enter_context(servers.running(servers.webhook(directory / "webhook"), server_core, injected))
        webhook.program.probe()
        after_start = proc.resident_mib(webhook.pid)
        targets = {
            "bare": target(bare, injected, expect_patch=None),
            "skipped": target(webhook, skipped, expect_patch=False),
            "injected": target(webhook, injected, expect_patch=True),
            **binding_targets(stack, directory, webhook.program.ask, (server_core, client_core)),
            **claim_targets(stack, directory / "claimed", webhook.program.ask, (server_core, client_core)),
        }
        say(f"filling the state of a cluster with {MANY_NODES} nodes")
        watching, behind = watching_webhook(stack, directory / "many", (server_core, client_core))
        watching_mib = proc.resident_mib(watching.pid)
        targets["watching"] = dataclasses.replace(
            target(watching, injected, expect_patch=True), behind=behind, restless=(watching.pid, behind)
        )
        bursts = interleave(client, targets, plan, say)
        resident = {"after start": after_start, "after load": proc.resident_mib(webhook.pid)}
        start_ms = [
            time_start(directory / f"start-{number}", server_core, injected, say) for number in range(plan.starts)
        ]
        pod_start_ms, pod_mib = measure_pod(client, plan, directory / "pod", (server_core, client_core), say)
        growth = None
        if plan.growth:
            fresh = stack.enter_context(servers.running(servers.webhook(directory / "growth"), server_core, injected))
            both = target(fresh, skipped, expect_patch=False), target(fresh, injected, expect_patch=True)
            growth = measure_growth(client, both, plan.growth, say)
    return Results(
        bursts=bursts,
        start_ms=start_ms,
        resident_mib=resident,
        growth=growth,
        pod_start_ms=pod_start_ms,
        pod_mib=pod_mib,
        watching_mib=watching_mib,
    )


def cluster(stack: ExitStack, directory: Path, nodes: int, core: int, *, resync: float = 0.0) -> servers.Server:
    """Starts a stand-in for the API server of a cluster with `nodes` nodes and no pods, in a new `directory`."""
    directory.mkdir()
    (directory / "pods").mkdir()
    program = servers.api_server(directory / "api-server", directory / "pods", nodes=nodes, resync=resync)
    return stack.enter_context(servers.running(program, core, servers.READY))


def measure_pod(
    client: load.Client, plan: Plan, directory: Path, cores: tuple[int, int], say: Callable[[str], None]
) -> tuple[list[float], dict[str, float]]:
    """Returns the milliseconds to the first answered review of each start as a pod, and the resident memory.

    The cluster is small. A first start, which is not timed, makes the certificates; that happens once in the life of a
    cluster.
    """
    request, start_ms, resident = bodies.request("gpu"), list[float](), dict[str, float]()
    with ExitStack() as stack:
        api_server = cluster(stack, directory, FEW_NODES, cores[1])
        for number in range(plan.starts + 1):
            say("timing the start as a pod of a cluster")
            program = servers.pod(directory / str(number), api_server.program)
            with servers.running(program, cores[0], request) as server:
                program.probe()
                start_ms.append(server.start_ms)
                resident["after start"] = proc.resident_mib(server.pid)
                if number == plan.starts:
                    loaded = target(server, request, expect_patch=True)
                    answer_many(client, (loaded,), POD_REVIEWS, plan.seconds, say)
                    resident["after load"] = proc.resident_mib(server.pid)
    return start_ms[1:], resident


def watching_webhook(stack: ExitStack, directory: Path, cores: tuple[int, int]) -> tuple[servers.Server, int]:
    """Starts a webhook that has the state of a cluster of many nodes; returns it and the PID of its API server.

    The API server has the client's core, with a lower priority than the client: a list of 5,000 nodes has 107 MB.
    """
    api_server = cluster(stack, directory, MANY_NODES, cores[1], resync=RESYNC_S)
    os.setpriority(os.PRIO_PROCESS, api_server.pid, 19)
    own = servers.watching_webhook(directory / "webhook", kubeconfig=directory / "api-server" / "kubeconfig")
    server = stack.enter_context(servers.running(own, cores[0], bodies.request("gpu")))
    server.program.probe()
    return server, api_server.pid


def binding_targets(
    stack: ExitStack, directory: Path, admit: bindings.Admit, cores: tuple[int, int]
) -> dict[str, load.Target]:
    """Starts the servers of the row `bound`: a webhook and, on the client's core, the API server with its pods."""
    pods = directory / "pods"
    pods.mkdir()
    written = list(bindings.pods(admit))
    for number, pod in enumerate(written):
        (pods / f"{number:02}.json").write_bytes(pod)
    return {"bound": reading_target(stack, directory, bindings.request(written[0]), cores)}


def claim_targets(
    stack: ExitStack, directory: Path, admit: bindings.Admit, cores: tuple[int, int]
) -> dict[str, load.Target]:
    """Starts the servers of the row `claimed`: a webhook, and an API server with pods and claims."""
    pods = directory / "pods"
    (pods / "claims").mkdir(parents=True)
    written = list(claims.pods(admit))
    for number, (pod, claim) in enumerate(written):
        (pods / f"{number:03}.json").write_bytes(pod)
        (pods / "claims" / f"{number:03}.json").write_bytes(claim)
    request = bindings.request(written[0][0])
    return {"claimed": reading_target(stack, directory, request, cores, slices=claims.slices())}


def reading_target(
    stack: ExitStack, directory: Path, request: bytes, cores: tuple[int, int], *, slices: str = ""
) -> load.Target:
    """Starts a webhook, and an API server with the objects in `pods` of the directory; `request` is about a Binding."""
    program = servers.api_server(directory / "api-server", directory / "pods")
    api_server = stack.enter_context(servers.running(program, cores[1], servers.READY))
    own = servers.webhook(directory / "live", kubeconfig=directory / "api-server" / "kubeconfig", slices=slices)
    live = stack.enter_context(servers.running(own, cores[0], request))
    return dataclasses.replace(target(live, request, expect_patch=True), behind=api_server.pid)


def target(server: servers.Server, request: bytes, *, expect_patch: bool | None) -> load.Target:
    """Sends a request once, checks that the answer is the one that the row shall measure, and notes its length.

    Raises `load.AnswerError` for a review that is refused, or patched when it should not be, or the reverse.
    """
    program = server.program
    answer = program.ask(request)
    response = json.loads(servers.body(answer))["response"]
    if expect_patch is not None and (not response["allowed"] or ("patch" in response) != expect_patch):
        wanted = "with a patch" if expect_patch else "without a patch"
        raise load.AnswerError(f"expected an allowed review {wanted}, found {json.dumps(response)[:600]}")
    return load.Target(
        name=" ".join(program.command),
        port=program.port,
        pid=server.pid,
        ca_file=program.ca_file,
        request=request,
        answer_length=len(answer),
    )


def interleave(
    client: load.Client,
    targets: Mapping[str, load.Target],
    plan: Plan,
    say: Callable[[str], None],
    connections: Sequence[int] = CONNECTIONS,
) -> Bursts:
    """Loads the rows in turn, so that a machine whose speed drifts slows all of them equally."""
    bursts = Bursts()
    say("warming up")
    for warmed in targets.values():
        client.burst(warmed, TARGET_CONNECTIONS, plan.seconds)
    with asleep([pid for one in targets.values() for pid in one.restless]):
        for number, count in itertools.product(range(1, plan.rounds + 1), connections):
            say(f"round {number} of {plan.rounds}, connections: {count}")
            for row, loaded in targets.items():
                bursts.take(client, row, loaded, count, plan.seconds)
    return bursts


@contextmanager
def asleep(pids: Sequence[int]) -> Iterator[None]:
    """Stops these processes until the end of the block."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def awake(pids: Sequence[int]) -> Iterator[None]:
    """Continues these stopped processes during the block, which begins after a time for them to catch up."""
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    if pids:
        time.sleep(WAKE_S)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)


def time_start(directory: Path, core: int, request: bytes, say: Callable[[str], None]) -> float:
    """Returns the milliseconds from the start of a webhook process to the end of its first answered review."""
    say("timing the start of the process")
    with servers.running(servers.webhook(directory), core, request) as server:
        return server.start_ms


def measure_growth(
    client: load.Client, targets: Sequence[load.Target], reviews: int, say: Callable[[str], None]
) -> Growth:
    """Sends `reviews` reviews, each row in turn, to one process, and compares its memory before and after."""
    answer_many(client, targets, min(GROWTH_WARM_UP, reviews), 0.25, say)
    before = proc.resident_mib(targets[0].pid)
    answered = answer_many(client, targets, reviews, GROWTH_BURST_S, say)
    return Growth(reviews=answered, before_mib=before, after_mib=proc.resident_mib(targets[0].pid))


def answer_many(
    client: load.Client, targets: Sequence[load.Target], reviews: int, seconds: float, say: Callable[[str], None]
) -> int:
    """Loads the targets in turn, in bursts of `seconds`, until `reviews` are answered; returns their number."""
    answered = 0
    for loaded in itertools.cycle(targets):
        if answered >= reviews:
            break
        say(f"resident memory: {answered:,} of {reviews:,} reviews")
        answered += client.burst(loaded, TARGET_CONNECTIONS, seconds).reviews
    return answered

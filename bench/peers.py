"""`python -m bench.peers`: the costs of other webhooks for the same pod, compared with ours and with a bare server.

Each is the program that its project ships, at the API server of the tests, over TLS, with the same bytes of review, and
with its own log lines. Each does another job, so the table shows the cost of admission with it, and does not compare
speeds at the same job.

- `bare`: a raw ASGI application that answers fixed bytes.
- `gpu-topology-webhook`: ours, and the pod with eight GPUs of `bench/pods/gpu.yaml`, as the row `injected` of
  `python -m bench`.
- `HAMi`: the webhook in HAMi's scheduler, with the options and the account of the tests. It adds the values that the
  request for GPUs leaves open.
- `EKS pod identity`: the webhook that gives pods a role of AWS. The pod's service account has one, so each container
  gets variables and a mount, and the pod a volume.

A program that is not available has no row, and the reason is printed. EKS's webhook is built with Go from its module,
or taken from the directory `POD_IDENTITY_WEBHOOK_ASSETS`. HAMi's, in the newest release that the tests know, is built
in the same way, or taken from `HAMI_ASSETS`. The measured values and the exit codes are those of `python -m bench`.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from kubernetes.client import CoreV1Api, V1Namespace, V1ObjectMeta, V1ServiceAccount
from rich.console import Console
from rich.table import Table

from bench import bodies, load, measure, proc, report, servers
from tests.control_plane.control_plane import Binaries, ControlPlane, running_control_plane
from tests.control_plane.hami import scheduler as hami
from tests.control_plane.processes import NotRunningError
from tests.go_programs.build import GoProgram, Missing, find_or_build
from tests.go_programs.catalogue import ETCD, HAMI_SCHEDULERS, KUBE_APISERVER, POD_IDENTITY_WEBHOOK
from webhook import __version__

HAMI_RELEASE = "2.10.0"
CONTROL_PLANE = (ETCD, KUBE_APISERVER)
QUICK = measure.Plan(rounds=1, seconds=0.3, starts=0, growth=0)
FULL = measure.Plan(rounds=7, seconds=1.0, starts=0, growth=0)
ROLE = {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/trainer"}
PATCH_LIMIT_S = 10.0
POLL_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Row:
    """A server to be measured."""

    name: str
    version: str
    target: load.Target
    operations: int
    """The number of operations in the patch of its answer."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place where the other webhooks run."""

    control_plane: ControlPlane
    directory: Path
    core: int


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A webhook of another project."""

    name: str
    program: GoProgram
    path: str
    """The path of its URL for reviews."""
    version: Callable[[Path], str]
    """Returns the version of its executable."""
    prepare: Callable[[Path, Place, Path], servers.Program]
    """Returns the program that starts its executable, with its files in a new directory."""


def peers() -> tuple[Peer, ...]:
    """Returns the other webhooks."""
    return (
        Peer(
            name="HAMi",
            program=HAMI_SCHEDULERS[HAMI_RELEASE],
            path="/webhook",
            version=lambda _: HAMI_RELEASE,
            prepare=prepare_hami,
        ),
        Peer(
            name="EKS pod identity",
            program=POD_IDENTITY_WEBHOOK,
            path="/mutate",
            version=said_version,
            prepare=prepare_pod_identity,
        ),
    )


def prepare_hami(executable: Path, place: Place, directory: Path) -> servers.Program:
    """Prepares HAMi's scheduler, as the service account that its chart makes."""
    hami.write_files(directory)
    port = servers.free_port()
    return servers.Program(
        command=[str(part) for part in hami.hami_command(executable, directory, port)],
        port=port,
        ca_file=directory / "ca.crt",
        stderr=directory / "stderr",
        environment={"KUBECONFIG": str(hami.create_account(place.control_plane))},
    )


def prepare_pod_identity(executable: Path, place: Place, directory: Path) -> servers.Program:
    """Prepares EKS's webhook as an administrator, and the service account of the benchmark's pod with a role of AWS."""
    account = bodies.submitted("gpu")["spec"]["serviceAccountName"]
    with place.control_plane.client() as client:
        core = CoreV1Api(client)
        core.create_namespace(V1Namespace(metadata=V1ObjectMeta(name=bodies.NAMESPACE)))
        metadata = V1ObjectMeta(name=account, annotations=ROLE)
        core.create_namespaced_service_account(bodies.NAMESPACE, V1ServiceAccount(metadata=metadata))
    hami.write_certificate(directory)
    port = servers.free_port()
    command = [str(executable), "--in-cluster=false", f"--kubeconfig={place.control_plane.kubeconfig}"]
    command += [f"--tls-cert={directory / 'tls.crt'}", f"--tls-key={directory / 'tls.key'}"]
    command += [f"--port={port}", f"--metrics-port={servers.free_port()}"]
    return servers.Program(command=command, port=port, ca_file=directory / "ca.crt", stderr=directory / "stderr")


def said_version(executable: Path) -> str:
    """Returns the version that EKS's webhook prints."""
    said = subprocess.run([executable, "--version"], capture_output=True, text=True, check=True)
    return said.stdout.strip().removeprefix("v")


def main() -> int:
    """Measures, prints, and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short round: does it work at all?")
    plan = QUICK if parser.parse_args().quick else FULL
    servers.exit_on_sigterm()
    progress = Console(stderr=True)
    found, missing = find(progress.print)
    try:
        with progress.status("") as status, tempfile.TemporaryDirectory(prefix="bench-") as directory:
            measured = [peer for peer in peers() if peer.name not in missing]
            rows, bursts = run(plan, measured, found, Path(directory), status.update)
    except (servers.StartError, load.AnswerError, NotRunningError, OSError) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    console = Console()
    console.print(table(rows, bursts, plan))
    console.print(f"{report.environment()['summary']}.")
    for name, reason in missing.items():
        console.print(f"Left out: {name}, because {reason}", soft_wrap=True)
    return 0


def find(say: Callable[[str], None]) -> tuple[dict[str, Path], dict[str, str]]:
    """Returns the available executables by program name, and the reasons for left-out webhooks by their names."""
    found, reasons = dict[str, Path](), dict[str, str]()
    for program in (*CONTROL_PLANE, *(peer.program for peer in peers())):
        executable = find_or_build(program, os.environ, say=say)
        if isinstance(executable, Missing):
            reasons[program.name] = executable.reason
        else:
            found[program.name] = executable
    missing = dict[str, str]()
    for peer in peers():
        for needed in (*CONTROL_PLANE, peer.program):
            if needed.name in reasons:
                missing[peer.name] = reasons[needed.name]
    return found, missing


def run(
    plan: measure.Plan, others: Sequence[Peer], found: Mapping[str, Path], directory: Path, say: Callable[[str], None]
) -> tuple[list[Row], measure.Bursts]:
    """Measures our webhook and the others, with the executables that were found."""
    server_core, client_core = proc.core_pair()
    with ExitStack() as stack:
        client = stack.enter_context(load.client(client_core))
        say("starting the servers")
        rows = list(own_rows(stack, directory, server_core))
        if others:
            binaries = Binaries(*(found[program.name] for program in CONTROL_PLANE))
            (directory / "control-plane").mkdir()
            with servers.pinned(client_core):
                control_plane = stack.enter_context(running_control_plane(binaries, directory / "control-plane"))
            place = Place(control_plane=control_plane, directory=directory, core=server_core)
            rows += [peer_row(stack, peer, found[peer.program.name], place) for peer in others]
        targets = {row.name: row.target for row in rows}
        return rows, measure.interleave(client, targets, plan, say, [measure.TARGET_CONNECTIONS])


def own_rows(stack: ExitStack, directory: Path, core: int) -> Iterator[Row]:
    """Yields the rows of the bare server and of our webhook."""
    request = bodies.request("gpu")
    bare = stack.enter_context(servers.running(servers.bare(directory / "bare"), core, request))
    target = measure.target(bare, request, expect_patch=None)
    yield Row(name="bare", version="", target=target, operations=0)
    ours = stack.enter_context(servers.running(servers.webhook(directory / "webhook"), core, request))
    yield patched("injected", __version__, ours, request)


def peer_row(stack: ExitStack, peer: Peer, executable: Path, place: Place) -> Row:
    """Returns the row of another project's webhook, after it patches the pod."""
    directory = place.directory / peer.program.name
    directory.mkdir()
    request = bodies.request("gpu").replace(bodies.PATH.encode(), peer.path.encode(), 1)
    program = peer.prepare(executable, place, directory)
    server = stack.enter_context(servers.running(program, place.core, request))
    return patched(peer.name, peer.version(executable), server, request)


def patched(name: str, version: str, server: servers.Server, request: bytes) -> Row:
    """Returns the row of a server, after it patches the pod. It may first have to read objects of the cluster.

    Raises `load.AnswerError` if it does not patch the pod in time.
    """
    deadline = time.monotonic() + PATCH_LIMIT_S
    while True:
        try:
            target = measure.target(server, request, expect_patch=True)
            break
        except load.AnswerError:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
    response = json.loads(servers.body(server.program.ask(request)))["response"]
    operations = len(json.loads(base64.b64decode(response["patch"])))
    return Row(name=name, version=version, target=target, operations=operations)


def table(rows: list[Row], bursts: measure.Bursts, plan: measure.Plan) -> Table:
    """Returns a table with one line for each webhook; `ops` are the operations of its patch."""
    connections = measure.TARGET_CONNECTIONS
    title = f"One review of the same pod, {connections} connections; medians, rounds: {plan.rounds}"
    shown = Table(title=title)
    for heading in ("webhook", "version"):
        shown.add_column(heading, no_wrap=True)
    for heading in ("ops", "CPU µs", "CPU / bare", "CPU / ours"):
        shown.add_column(heading, justify="right")
    ours = bursts.cell("injected", connections).ratio
    for row in rows:
        cell = bursts.cell(row.name, connections)
        costs = f"{cell.server_us:,.0f}", f"{cell.ratio:.1f}", f"{cell.ratio / ours:.2f}"
        name = "gpu-topology-webhook" if row.name == "injected" else row.name
        shown.add_row(name, row.version, str(row.operations or ""), *costs)
    return shown


if __name__ == "__main__":
    sys.exit(main())

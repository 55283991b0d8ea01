"""The servers under test, each a process of its own on one core: its start, first answer and stop."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from bench import bodies
from bench.bindings import TOPOLOGY
from bench.cluster import OWN_NAMESPACE
from bench.load import OK

START_LIMIT_S = 120.0
"""The time limit of a start, long enough to list a whole cluster first on a busy machine."""
STOP_LIMIT_S = 5.0
ANSWER_LIMIT_S = 5.0
POLL_S = 0.002
TOKEN_LENGTH = 1000
"""The approximate length of a service account's token."""

STATE = {
    "cluster.yaml": 'hamiVersion: "2.9.0"\nkubernetesVersion: "1.33.2"\n',
    f"namespaces/{bodies.NAMESPACE}.yaml": (
        "apiVersion: v1\nkind: Namespace\nmetadata:\n"
        f"  name: {bodies.NAMESPACE}\n  labels: {{gpu.topology/injection: enabled}}\n"
    ),
}
"""The state of the webhook's cluster: one namespace that opted in, and a HAMi that supports the init container."""

END_OF_HEAD = b"\r\n\r\n"
CHUNKED = b"\r\ntransfer-encoding: chunked"
LAST_CHUNK = b"0\r\n\r\n"
READY = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
"""The first request to the stand-in for the API server."""


class StartError(Exception):
    """The error of a server that ended, or gave no answer, before its first review."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that is a server: its command and its address."""

    command: Sequence[str]
    """The executable and its arguments."""
    port: int
    ca_file: Path
    """The authority to trust; the server writes it before it listens."""
    stderr: Path
    ops_port: int = 0
    """The port for probes without TLS; 0 if there is none."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables in addition to those of this process."""

    def probe(self) -> None:
        """Asks for readiness, as a kubelet does. The first probe loads the modules that probes need."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ops_port}/readyz", timeout=ANSWER_LIMIT_S) as answer:
            answer.read()

    def ask(self, request: bytes) -> bytes:
        """Sends one request over a new connection, and returns the whole answer, head and body.

        Raises `OSError` if no answer comes.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_LIMIT_S) as connection:
            tls = ssl.create_default_context(cafile=self.ca_file)
            with tls.wrap_socket(connection, server_hostname="127.0.0.1") as channel:
                channel.sendall(request)
                return read_answer(channel)


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server that has answered a review."""

    program: Program
    pid: int
    start_ms: float
    """The milliseconds from the start of the process to the end of the first answered review."""


def bare(directory: Path) -> Program:
    """Returns the program `bench.bare`, with its files in a new `directory`."""
    directory.mkdir()
    port, ca_file = free_port(), directory / "ca.crt"
    command = module("bench.bare", "--ca-file", str(ca_file), "--port", str(port))
    return Program(command=command, port=port, ca_file=ca_file, stderr=directory / "stderr")


def api_server(directory: Path, pods: Path, *, nodes: int = 0, resync: float = 0.0) -> Program:
    """Returns the program `bench.api_server` with these pods, and its files in a new `directory`.

    One of the files is a `kubeconfig` for it. Its cluster has `nodes` nodes, and watches expire after `resync` seconds
    unless that is 0.
    """
    directory.mkdir()
    port, ca_file = free_port(), directory / "ca.crt"
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(ca_file)}}
        ],
        "users": [{"name": "u", "user": {"token": "t" * TOKEN_LENGTH}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (directory / "kubeconfig").write_text(json.dumps(kubeconfig))
    command = module("bench.api_server", "--ca-file", str(ca_file), "--port", str(port), "--pods", str(pods))
    command += ["--nodes", str(nodes), "--resync", str(resync), "--authority", str(directory / "authority.crt")]
    return Program(command=command, port=port, ca_file=ca_file, stderr=directory / "stderr")


def webhook(directory: Path, *, kubeconfig: Path | None = None, slices: str = "") -> Program:
    """Returns the webhook as an operator starts it, with the state of its cluster in a new `directory`.

    It reads the pods of Bindings from the API server of `kubeconfig`, if there is one; with `slices`, their claims too.
    """
    files = {**STATE, f"nodes/{TOPOLOGY.name}": TOPOLOGY.read_text()}
    files |= {"claims/slices.yaml": slices} if slices else {}
    for name, text in files.items():
        path = directory / "state" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    more = ["--state", str(directory / "state")]
    if slices:
        (directory / "config.yaml").write_text("claims: {enabled: true}\n")
        more += ["--config", str(directory / "config.yaml")]
    return _webhook(directory, *more, kubeconfig=kubeconfig)


def watching_webhook(directory: Path, *, kubeconfig: Path) -> Program:
    """Returns the webhook with the state of the cluster at the API server of `kubeconfig`."""
    directory.mkdir()
    return _webhook(directory, "--state", "kubernetes", "--namespace", OWN_NAMESPACE, kubeconfig=kubeconfig)


def pod(directory: Path, api_server: Program) -> Program:
    """Returns the webhook as the chart runs it: a pod of the cluster, with its certificates in a Secret."""
    account, config = directory / "account", directory / "config.yaml"
    account.mkdir(parents=True)
    (account / "token").write_text("t" * TOKEN_LENGTH)
    (account / "ca.crt").write_bytes(api_server.ca_file.read_bytes())
    config.write_text("certificates: {additionalNames: [127.0.0.1]}\n")
    port, ops_port = free_port(), free_port()
    command = module("bench.pod", str(account), "serve", "--config", str(config), "--state", "kubernetes")
    command += ["--host", "127.0.0.1", "--port", str(port), "--ops-port", str(ops_port)]
    environment = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(api_server.port),
        "POD_NAME": "gpu-topology-webhook-0",
        "POD_NAMESPACE": OWN_NAMESPACE,
    }
    return Program(
        command=command,
        port=port,
        ca_file=api_server.ca_file.with_name("authority.crt"),
        stderr=directory / "stderr",
        ops_port=ops_port,
        environment=environment,
    )


def _webhook(directory: Path, *more: str, kubeconfig: Path | None) -> Program:
    port, ops_port, ca_file = free_port(), free_port(), directory / "ca.crt"
    command = module("webhook", "serve", *more, "--self-signed")
    command += ["--ca-file", str(ca_file), "--host", "127.0.0.1", "--port", str(port), "--ops-port", str(ops_port)]
    command += ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
    return Program(command=command, port=port, ca_file=ca_file, stderr=directory / "stderr", ops_port=ops_port)


def module(name: str, *arguments: str) -> list[str]:
    """Returns the command that runs one of our modules."""
    return [sys.executable, "-m", name, *arguments]


@contextmanager
def running(program: Program, core: int, request: bytes) -> Iterator[Server]:
    """Runs the program on one core; the block begins after its answer to `request`."""
    begin = time.perf_counter()
    with program.stderr.open("wb") as stderr, pinned(core):
        process = subprocess.Popen(
            program.command,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
            env={**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **program.environment},
        )
    try:
        _await_first_answer(process, program, request)
        start_ms = (time.perf_counter() - begin) * 1e3
        yield Server(program=program, pid=process.pid, start_ms=start_ms)
    finally:
        _stop(process)


def exit_on_sigterm() -> None:
    """Makes SIGTERM raise `SystemExit`, so that the blocks that stop the servers end."""

    def leave(_signal: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Pins processes that are started in the block to one core, from their first thread on."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _await_first_answer(process: subprocess.Popen[bytes], program: Program, request: bytes) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    answer = b""
    while not answer.startswith(OK):
        if process.poll() is not None or time.monotonic() > deadline:
            ended = f"ended with {process.returncode}" if process.returncode is not None else "gives no such answer"
            said = program.stderr.read_text(errors="replace")[-2000:]
            command = " ".join(program.command)
            raise StartError(f"expected a first answer with 200, but `{command}` {ended}: {answer[:300]!r}\n{said}")
        time.sleep(POLL_S)
        with contextlib.suppress(OSError):
            answer = program.ask(request)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the process by SIGINT, or kills its process group if it does not end in time.

    The signal is SIGINT because on SIGTERM the webhook first waits for its clients to leave.
    """
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def read_answer(channel: ssl.SSLSocket) -> bytes:
    """Reads one whole answer, head and body. Raises `ConnectionError` if the server closes before its end."""
    answer = b""
    while END_OF_HEAD not in answer:
        answer += _receive(channel)
    head, separator, _ = answer.partition(END_OF_HEAD)
    if CHUNKED in head.lower():
        while not answer.endswith(LAST_CHUNK):
            answer += _receive(channel)
        return answer
    length = len(head) + len(separator) + content_length(head)
    while len(answer) < length:
        answer += _receive(channel)
    return answer


def body(answer: bytes) -> bytes:
    """Returns the body of a whole answer."""
    head, _, rest = answer.partition(END_OF_HEAD)
    if CHUNKED not in head.lower():
        return rest
    parts = []
    while rest != LAST_CHUNK:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line, 16)
        parts.append(rest[:size])
        rest = rest[size + 2 :]
    return b"".join(parts)


def _receive(channel: ssl.SSLSocket) -> bytes:
    received = channel.recv(65_536)
    if not received:
        raise ConnectionError("the server closed the connection before the end of its answer")
    return received


def content_length(head: bytes) -> int:
    """Returns the length of the body that follows this head. Raises `ConnectionError` if the head has none."""
    for line in head.splitlines():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ConnectionError(f"expected an answer with a content-length, found {head!r}")


def free_port() -> int:
    """Returns a TCP port of 127.0.0.1 on which no server listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

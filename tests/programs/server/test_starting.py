"""What keeps a server from starting is said in one line, with the remedy, and ends with exit code 1."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.certificate import TlsBundle, issue
from tests.cli.command import gpu_topology_process
from tests.ports import reserved_port
from tests.programs.called import called
from tests.programs.server.conftest import EXAMPLE_STATE, RunningServer, StartServer

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def serve(*arguments: str | Path, state: Path = EXAMPLE_STATE) -> tuple[int, str]:
    """Call a server that is expected to end by itself; returns its exit code and what it said on stderr."""
    with reserved_port() as port, reserved_port() as ops_port:
        ports = ("--port", str(port), "--ops-port", str(ops_port))
        done = called("serve", "--state", state, "--host", "127.0.0.1", *ports, *arguments)
    return done.code, done.err


def write(directory: Path, bundle: TlsBundle) -> Path:
    (directory / "tls.crt").write_bytes(bundle.certificate)
    (directory / "tls.key").write_bytes(bundle.key)
    (directory / "ca.crt").write_bytes(bundle.authority)
    return directory


def pair(now: datetime = NOW, lifetime: timedelta = 30 * DAY) -> TlsBundle:
    return issue(["localhost", "127.0.0.1"], now=now, lifetime=lifetime)


def test_a_pair_from_a_directory_is_served(start_server: StartServer, tmp_path: Path) -> None:
    (tmp_path / "tls").mkdir()
    directory = write(tmp_path / "tls", pair())
    server = start_server("--tls", str(directory))
    server.authority = directory / "ca.crt"
    with server.client() as client:
        assert client.post("/mutate/pods", content=b"{").status_code == 400


def test_a_missing_directory_is_named_with_the_remedy(tmp_path: Path) -> None:
    code, said = serve("--tls", tmp_path / "nowhere")
    assert code == 1
    assert f"gpu-topology: {tmp_path / 'nowhere'}: expected tls.crt and tls.key: No such file" in said
    assert "or try --self-signed" in said


def test_an_expired_certificate_is_refused_with_its_date(tmp_path: Path) -> None:
    code, said = serve("--tls", write(tmp_path, pair(datetime(2020, 1, 1, tzinfo=UTC), 10 * DAY)))
    assert (code, said) == (1, "gpu-topology: tls.crt ended on 2020-01-11. Issue it again\n")


def test_a_certificate_of_the_future_is_refused(tmp_path: Path) -> None:
    code, said = serve("--tls", write(tmp_path, pair(NOW + 10 * DAY)))
    assert code == 1
    assert "gpu-topology: tls.crt begins only on " in said
    assert "Check this machine's clock" in said


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    code, said = serve("--tls", write(tmp_path, TlsBundle(pair().certificate, pair().key)))
    assert code == 1
    assert said == "gpu-topology: tls.key does not belong to tls.crt. Take both from one and the same Secret\n"


@pytest.mark.parametrize(("name", "text"), [("tls.crt", "certificate"), ("tls.key", "private key")])
def test_a_file_that_is_no_pem_is_named(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path, pair())
    (tmp_path / name).write_bytes(b"-----BEGIN NONSENSE-----")
    code, said = serve("--tls", tmp_path)
    assert code == 1
    assert f"gpu-topology: {name}: expected" in said
    assert text in said
    assert "Issue it again" in said


def test_a_port_in_use_is_named(example_server: RunningServer) -> None:
    code, said = serve("--self-signed", "--port", str(example_server.port))
    assert code == 1
    assert "address already in use" in said.lower()
    assert str(example_server.port) in said


def test_an_ops_port_in_use_is_named(example_server: RunningServer) -> None:
    with reserved_port() as port:
        ports = ("--port", str(port), "--ops-port", str(example_server.ops_port))
        options = ("--state", EXAMPLE_STATE, "--self-signed", "--host", "127.0.0.1")
        done = gpu_topology_process("serve", *options, *ports)  # which closes the other port by its end
    assert (done.code, done.out) == (1, "")
    assert "address already in use" in done.err.lower()
    assert str(example_server.ops_port) in done.err


def test_a_host_that_is_none_is_named() -> None:
    code, said = serve("--self-signed", "--host", "192.0.2.1")
    assert code == 1
    assert "192.0.2.1" in said


def test_a_state_directory_that_is_none_is_named(tmp_path: Path) -> None:
    code, said = serve("--self-signed", state=tmp_path / "nowhere")
    assert code == 1
    assert (
        f"gpu-topology: {tmp_path / 'nowhere'}: "
        "expected a state directory (namespaces/, nodes/, cluster.yaml), found none" in said
    )


def test_a_topology_that_cannot_be_read_is_named_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "a.json").write_text("{")
    code, said = serve("--self-signed", state=tmp_path)
    assert code == 1
    assert f"gpu-topology: {tmp_path}/nodes/a.json: expected a NodeTopology in JSON" in said


def test_a_ca_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    code, said = serve("--self-signed", "--ca-file", tmp_path / "nowhere" / "ca.crt")
    assert code == 1
    assert str(tmp_path / "nowhere" / "ca.crt") in said


def test_a_state_is_required() -> None:
    done = called("serve", "--self-signed")
    assert done.code == 2
    assert "expected kubernetes, or a state directory" in " ".join(done.err.split())


@pytest.mark.parametrize("arguments", [[], ["--tls", "x", "--self-signed"]], ids=["none", "two"])
def test_one_source_of_the_certificate_is_required(arguments: list[str]) -> None:
    code, said = serve(*arguments)
    assert code == 2
    assert "--tls" in said
    assert "--self-signed" in said


def test_a_bad_configuration_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("server: {prot: 1}")
    code, said = serve("--self-signed", "--config", config)
    assert code == 1
    assert said == f"gpu-topology: {config}: server.prot: unknown setting. Did you mean server.port?\n"


def test_an_authority_of_clients_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"server: {{clientAuthority: {tmp_path}/nowhere}}")
    code, said = serve("--self-signed", "--config", config)
    assert code == 1
    assert f"gpu-topology: server.clientAuthority: {tmp_path}/nowhere: expected the authority of clients, PEM" in said

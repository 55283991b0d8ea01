"""Files of trust that change while the program runs."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.certificate import issue
from certs.context import server_context
from tests.cluster.api.access import ToldAccess
from tests.cluster.api.stand_in import POD, always, serving
from webhook.cluster.api.current_objects import LivePods
from webhook.cluster.api.session import Session
from webhook.cluster.api.trust import TlsFiles, Trust
from webhook.cluster.api.verbs import Api
from webhook.words.errors import ConfigError, PodsUnreadable


def new_authority(file: Path) -> ssl.SSLContext:
    """A server's side of TLS whose authority replaces the one in ``file``, as the kubelet does it: by a new file."""
    bundle = issue(["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    beside = file.with_name("next")
    beside.write_bytes(bundle.authority)
    beside.replace(file)
    return server_context(bundle)


async def test_a_new_authority_is_trusted_from_the_next_connection_on(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    old = new_authority(ca)

    async with serving(always(POD), tls=old) as stand_in:
        session = Session(
            ToldAccess(f"https://127.0.0.1:{stand_in.port}", authority=ca), user_agent="test", seconds=10.0
        )
        assert await LivePods(Api(session)).pod("team-a", "train") == POD
    port = stand_in.port
    new = new_authority(tmp_path / "unknown.crt")
    async with serving(always(POD), tls=new, port=port):
        with pytest.raises(PodsUnreadable, match="CERTIFICATE_VERIFY_FAILED"):
            await LivePods(Api(session)).pod("team-a", "train")
        (tmp_path / "unknown.crt").replace(ca)
        assert await LivePods(Api(session)).pod("team-a", "train") == POD
    await session.close()


def test_a_file_that_is_half_written_or_gone_leaves_the_trust_as_it_was(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    new_authority(ca)
    trust = Trust(TlsFiles(authority=str(ca)))
    before = trust.context()
    whole = ca.read_bytes()
    ca.write_bytes(whole[:100])
    assert trust.context() is before
    ca.unlink()
    assert trust.context() is before
    ca.write_bytes(whole)
    assert trust.context() is not before
    assert trust.context() is trust.context()


def test_a_file_that_is_none_from_the_start_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"expected certificates for https://127.0.0.1:1 in"):
        Trust(TlsFiles(authority=str(tmp_path / "ca.crt"), server="https://127.0.0.1:1"))

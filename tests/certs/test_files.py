"""Files that somebody else renews, swapped as the kubelet swaps a mounted Secret."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from certs import BundleError
from certs.certificate import TlsBundle, issue, load
from certs.context import LiveContext
from certs.keeper import FileKeeper
from tests.certs.test_live_context import connect, listening

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def pair(now: datetime = NOW) -> TlsBundle:
    return issue(["localhost"], now=now, lifetime=DAY)


class Mount:
    """A directory as the kubelet makes it: files are links into a directory that is replaced as a whole."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._number = 0
        for name in ("tls.crt", "tls.key", "ca.crt"):
            (directory / name).symlink_to(Path("..data", name))

    def write(self, bundle: TlsBundle) -> None:
        self._number += 1
        version = self.directory / f"..{self._number}"
        version.mkdir()
        (version / "tls.crt").write_bytes(bundle.certificate)
        (version / "tls.key").write_bytes(bundle.key)
        (version / "ca.crt").write_bytes(bundle.authority)
        link = self.directory / "..new"
        link.symlink_to(version.name)
        link.rename(self.directory / "..data")


class Log:
    """What was told."""

    def __init__(self) -> None:
        self._lines: list[Any] = []

    def say(self, level: str, message: str, **fields: str) -> None:
        self._lines.append({"level": level, "message": message, **{key: text for key, text in fields.items() if text}})

    def lines(self) -> list[Any]:
        return self._lines


def test_new_files_are_served_and_what_cannot_be_used_is_passed_over(tmp_path: Path) -> None:
    log = Log()
    mount, live = Mount(tmp_path), LiveContext()
    first, second = pair(), pair()
    mount.write(first)
    keeper = FileKeeper(live, log.say, directory=tmp_path, seconds=0.01)
    keeper.look()

    async def served(bundle: TlsBundle, port: int) -> None:
        """Wait until that is what clients are shown."""
        for _ in range(500):
            client = await connect(port, unchecked())
            found = client.shown
            client.close()
            if found == load(bundle.certificate)[0]:
                return
            await asyncio.sleep(0.01)
        pytest.fail("never served")

    async def main() -> None:
        async with listening(live) as port:
            await keeper.open()
            await served(first, port)
            mount.write(TlsBundle(second.certificate, first.key, second.authority))
            while len(log.lines()) < 1:
                await asyncio.sleep(0.01)
            await served(first, port)
            mount.write(pair(NOW - 10 * DAY))
            while len(log.lines()) < 2:
                await asyncio.sleep(0.01)
            mount.write(second)
            await served(second, port)
            await keeper.close()

    asyncio.run(main())
    said = log.lines()
    assert said[0]["failed"] == "tls.key does not belong to tls.crt. Take both from one and the same Secret"
    assert said[1]["failed"].startswith("tls.crt ended on ")
    assert {line["did"] for line in said[2:]} == {"recovered", "serving"}
    assert len(said) == 4
    assert keeper.served.certificate_ends == pytest.approx((NOW + DAY).timestamp(), abs=1)


def unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_the_first_look_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"expected tls\.crt and tls\.key"):
        FileKeeper(LiveContext(), Log().say, directory=tmp_path).look()
    with pytest.raises(
        BundleError, match=r"^server\.clientAuthority: .*nowhere: expected the authority of clients, PEM"
    ):
        FileKeeper(LiveContext(), Log().say, client_authority=tmp_path / "nowhere").look()


def test_the_authority_of_clients_is_read_anew(tmp_path: Path) -> None:
    file, log = tmp_path / "clients.pem", Log()
    file.write_bytes(pair().authority)
    keeper = FileKeeper(LiveContext(demands_clients=True), log.say, client_authority=file)
    keeper.look()
    keeper.look()
    file.write_bytes(b"no PEM")
    with pytest.raises(BundleError, match="the authority of clients cannot be used"):
        keeper.look()
    file.write_bytes(pair().authority)
    keeper.look()
    assert [line["did"] for line in log.lines()] == ["demanding"]

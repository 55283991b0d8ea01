"""A cluster as far as certificates are concerned: what the API server keeps, its clock, and clients that trust it.

It holds objects and their versions; every decision is that of ``certs``, and of the Lease that of ``webhook``.
"""

import base64
import copy
import itertools
import types
from collections.abc import Coroutine, Generator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509

from certs import ApiFailure, CertsError, Conflict
from certs.certificate import TlsBundle, is_in_date, is_issued_by, leaf, load_authorities
from certs.objects import CertificateSpec
from certs.rounds import Pace, Replica
from webhook.objects.lease import ObservedLease, leader_spec, look, may_lead

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPEC = CertificateSpec(
    namespace="gpu",
    secret="webhook-tls",  # noqa: S106 - a name
    secret_type="example.org/certificates",  # noqa: S106 - a name
    rotate="example.org/rotate",
    service="webhook",
    configuration="webhook",
    lifetime=timedelta(days=90),
    authority_lifetime=timedelta(days=730),
)
PACE = Pace(overlap=600.0)
LEASE_S = 4 * PACE.check
SECRET, LEASE, CONFIGURATION = "secrets", "leases", "mutatingwebhookconfigurations"
"""The three objects, as roles call them; of each kind there is one."""


@types.coroutine
def pause() -> Generator[None]:
    """Stop until the replica may make its next request."""
    yield


class Runner:
    """A replica, the round it is in the middle of, and what its clients meet. It asks the :class:`World`."""

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.name = f"pod-{number}"
        self.replica = Replica(self, SPEC, PACE, lambda: world.elapsed, self._serve)
        self.talk: Coroutine[Any, Any, None] | None = None
        self.served: TlsBundle | None = None
        self.requests = 0
        self._observed: ObservedLease | None = None

    def _serve(self, pair: TlsBundle) -> None:
        self.served = pair

    async def configuration(self) -> Any:
        await self._ask("get", CONFIGURATION)
        return self.world.read(CONFIGURATION)

    async def secret(self) -> tuple[Any, datetime]:
        await self._ask("get", SECRET)
        return self.world.read(SECRET), self.world.now

    async def write_secret(self, manifest: dict[str, Any]) -> None:
        await self._ask("update" if "resourceVersion" in manifest["metadata"] else "create", SECRET)
        self.world.write(SECRET, manifest)

    async def register(self, patch: dict[str, Any]) -> None:
        await self._ask("patch", CONFIGURATION)
        self.world.patch_configuration(patch)

    async def lead(self) -> bool:
        await self._ask("get", LEASE)
        found, now = self.world.read(LEASE), self.world.elapsed
        if found is not None:
            self._observed = look(self._observed, found, now)
            if not may_lead(found, self._observed, self.name, now, least=LEASE_S):
                return False
        spec = leader_spec(found, self.name, self.world.now, duration=LEASE_S)
        await self._ask("update" if found else "create", LEASE)
        try:
            self.world.write(LEASE, (found or {"metadata": {}}) | {"spec": spec})
        except Conflict:
            return False
        return True

    async def leave(self) -> None:
        raise AssertionError("a round never gives the lead up")

    async def close(self) -> None:
        raise AssertionError("a round never closes the connections")

    async def _ask(self, verb: str, resource: str) -> None:
        await pause()
        self.requests += 1
        self.world.seen.add((resource, verb))
        if self.world.away:
            raise ApiFailure("away")


@dataclass
class World:
    """Time passes only by :meth:`wait`."""

    elapsed: float = 0.0
    skew: timedelta = timedelta(0)
    """By how much the API server's clock is wrong."""
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    runners: list[Runner] = field(default_factory=list)
    bundles: list[tuple[float, tuple[x509.Certificate, ...]]] = field(default_factory=list)
    """What the configuration named, and until when; without what meddlers wrote."""
    seen: set[tuple[str, str]] = field(default_factory=set)
    """The requests, by resource and verb."""
    away: bool = False
    meddled: bool = False
    """Whether the configuration is as somebody else wrote it."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def now(self) -> datetime:
        """The API server's clock."""
        return BEGIN + timedelta(seconds=self.elapsed) + self.skew

    def register(self) -> None:
        """What is installed: an empty Secret; a configuration with two webhooks of ours and one of somebody else's."""
        self.make_secret()

        def webhook(name: str, service: str) -> dict[str, Any]:
            return {"name": name, "clientConfig": {"service": {"namespace": "gpu", "name": service}}}

        webhooks = [webhook("pods", "webhook"), webhook("other", "another"), webhook("bindings", "webhook")]
        self.put(CONFIGURATION, {"metadata": {}, "webhooks": webhooks})

    def make_secret(self) -> None:
        """Without values, as the chart makes it."""
        self.put(SECRET, {"metadata": {}, "type": SPEC.secret_type})

    def put(self, key: str, manifest: dict[str, Any]) -> None:
        manifest = copy.deepcopy(manifest)
        before = copy.deepcopy(self.objects.get(key))
        if before is not None:
            manifest.setdefault("metadata", {})["resourceVersion"] = before["metadata"]["resourceVersion"]
            if before == manifest:
                return
        manifest["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.objects[key] = manifest

    def start(self) -> Runner:
        """A new replica, in a new Pod."""
        runner = Runner(self, next(self._numbers))
        self.runners.append(runner)
        return runner

    def kill(self, runner: Runner) -> None:
        self.runners.remove(runner)

    def step(self, runner: Runner) -> bool:
        """Let it make one request; whether its round goes on. What it changed meanwhile is done."""
        try:
            runner.talk = runner.talk or runner.replica.round()
            runner.talk.send(None)
        except (StopIteration, CertsError):
            runner.talk = None
            runner.replica.changes.clear()
            return False
        return True

    def round(self, runner: Runner) -> None:
        """Let it finish its round, or make one."""
        while self.step(runner):
            pass

    def wait(self, seconds: float) -> None:
        self.elapsed += seconds

    def burst(self, seconds: float = 300.0) -> None:
        """All replicas at their usual pace."""
        end = self.elapsed + seconds
        while self.elapsed < end:
            for runner in list(self.runners):
                self.round(runner)
            self.wait(PACE.check)

    def data(self) -> dict[str, bytes]:
        return {key: base64.b64decode(value) for key, value in self.objects[SECRET].get("data", {}).items()}

    def named(self) -> list[bytes]:
        """The caBundles of our two webhooks."""
        webhooks = self.objects[CONFIGURATION]["webhooks"]
        return [base64.b64decode(webhooks[index]["clientConfig"].get("caBundle", "")) for index in (0, 2)]

    def meddle(self, bundle: bytes) -> None:
        """Somebody writes this into all webhooks; clients that believe it are lost until it is repaired."""
        self._remember()
        manifest = copy.deepcopy(self.objects[CONFIGURATION])
        for index in (0, 2):
            manifest["webhooks"][index]["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
        self.put(CONFIGURATION, manifest)
        self.meddled = True

    def spoil(self, key: str, value: bytes | None) -> None:
        """Somebody edits one value of the Secret."""
        secret = self.objects[SECRET]
        data = {name: text for name, text in secret.get("data", {}).items() if name != key}
        if value is not None:
            data[key] = base64.b64encode(value).decode()
        self.put(SECRET, secret | {"data": data})

    def objects_of_others(self) -> tuple[str, str]:
        """Name and Service of the webhook that is not ours; fails if it has got a caBundle."""
        webhook = self.objects[CONFIGURATION]["webhooks"][1]
        assert "caBundle" not in webhook["clientConfig"]
        return webhook["name"], webhook["clientConfig"]["service"]["name"]

    def failing(self, *, stale: float) -> list[str]:
        """Clients that fail although they believe what the configuration said at some time in the last seconds."""
        serving = [runner for runner in self.runners if runner.served is not None]
        if not serving:
            self.bundles.clear()  # nobody could be reached, so nobody is worse off now
            return []
        self.bundles = [each for each in self.bundles if self.elapsed - each[0] < stale]
        bundles = [bundle for _, bundle in self.bundles]
        if not self.meddled:
            bundles.append(authorities(self.named()[0]))
        return [
            f"{runner.name} at {self.now}"
            for runner in serving
            for bundle in bundles
            if not self.accepts(bundle, runner)
        ]

    def accepts(self, bundle: tuple[x509.Certificate, ...], runner: Runner) -> bool:
        assert runner.served is not None
        shown = shown_by(runner.served)
        return is_in_date(shown, self.now) and any(
            is_issued(shown, each) and is_in_date(each, self.now) for each in bundle
        )

    def _remember(self) -> None:
        """What the configuration says is about to change."""
        if not self.meddled and any(runner.served for runner in self.runners):
            self.bundles.append((self.elapsed, authorities(self.named()[0])))

    def read(self, key: str) -> Any:
        return copy.deepcopy(self.objects.get(key))

    def write(self, key: str, manifest: dict[str, Any]) -> None:
        """Create the object, or replace that of the version."""
        version = manifest["metadata"].get("resourceVersion")
        if version is not None and key not in self.objects:
            raise ApiFailure("404")
        if key in self.objects and version != self.objects[key]["metadata"]["resourceVersion"]:
            raise Conflict("another version")
        self.put(key, manifest)

    def patch_configuration(self, patch: dict[str, Any]) -> None:
        if patch["metadata"]["resourceVersion"] != self.objects[CONFIGURATION]["metadata"]["resourceVersion"]:
            raise Conflict("another version")
        self._remember()
        self.meddled = False
        self.put(CONFIGURATION, merged(self.objects[CONFIGURATION], patch))


def merged(old: Any, patch: Any) -> Any:
    """``patch`` merged into ``old``; lists of named things by name."""
    if isinstance(old, dict) and isinstance(patch, dict):
        return old | {key: merged(old.get(key), value) for key, value in patch.items()}
    if isinstance(old, list) and isinstance(patch, list):
        changes = {each["name"]: each for each in patch}
        return [merged(each, changes.get(each["name"], {})) for each in old]
    return patch


@cache
def authorities(bundle: bytes) -> tuple[x509.Certificate, ...]:
    return load_authorities(bundle)


@cache
def shown_by(pair: TlsBundle) -> x509.Certificate:
    return leaf(pair)


@cache
def is_issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    return is_issued_by(certificate, authority)

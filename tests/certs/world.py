"""A cluster as far as certificates are concerned: what the API server keeps, its clock, and clients that trust it.

It holds objects and their versions; every decision is that of ``certs``.
"""

import base64
import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509

from certs.bundle import TlsBundle
from certs.certificate import is_in_date, is_issued_by, load_authorities
from certs.errors import ApiFailure, CertsError, Conflict
from certs.material import leaf
from certs.requests import Answer, Create, Get, Kind, Patch, Replace, Request, Serve
from certs.rounds import Replica, Talk
from certs.spec import CertificateSpec, Marks, Pace

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
MARKS = Marks(
    secret_type="example.org/certificates",  # noqa: S106 - a name
    rotate="example.org/rotate",
    field_manager="tests",
)
SPEC = CertificateSpec(
    marks=MARKS,
    namespace="gpu",
    secret="webhook-tls",  # noqa: S106 - a name
    service="webhook",
    configuration="webhook",
    lifetime=timedelta(days=90),
    authority_lifetime=timedelta(days=730),
)
PACE = Pace(overlap=600.0)
SECRET, CONFIGURATION = (Kind.SECRET, "webhook-tls"), (Kind.CONFIGURATION, "webhook")


@dataclass
class Runner:
    """A replica, the round it is in the middle of, and what its clients meet."""

    replica: Replica
    talk: Talk | None = None
    request: Request | None = None
    served: TlsBundle | None = None
    requests: int = 0


@dataclass
class World:
    """Time passes only by :meth:`wait`."""

    elapsed: float = 0.0
    skew: timedelta = timedelta(0)
    """By how much the API server's clock is wrong."""
    objects: dict[tuple[Kind, str], dict[str, Any]] = field(default_factory=dict)
    runners: list[Runner] = field(default_factory=list)
    bundles: list[tuple[float, tuple[x509.Certificate, ...]]] = field(default_factory=list)
    """What the configuration named, and until when; without what meddlers wrote."""
    seen: set[tuple[type[Request], Kind]] = field(default_factory=set)
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
        self.put(CONFIGURATION, {"metadata": {"name": "webhook"}, "webhooks": webhooks})

    def make_secret(self) -> None:
        """Without values, as the chart makes it."""
        self.put(SECRET, {"metadata": {"name": "webhook-tls"}, "type": MARKS.secret_type})

    def put(self, key: tuple[Kind, str], manifest: dict[str, Any]) -> None:
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
        number = next(self._numbers)
        replica = Replica(f"pod-{number}", SPEC, PACE, lambda: self.elapsed)
        runner = Runner(replica)
        self.runners.append(runner)
        return runner

    def kill(self, runner: Runner) -> None:
        self.runners.remove(runner)

    def step(self, runner: Runner) -> bool:
        """Let it make one request; whether its round goes on. What it changed meanwhile is done."""
        try:
            if runner.talk is None:
                runner.talk = runner.replica.round()
                runner.request = next(runner.talk)
            elif runner.request is not None:
                runner.requests += 1
                try:
                    answer = self._perform(runner, runner.request)
                except CertsError as error:
                    runner.request = runner.talk.throw(error)
                else:
                    runner.request = runner.talk.send(answer)
        except (StopIteration, CertsError):
            runner.talk = runner.request = None
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
            f"{runner.replica.identity} at {self.now}"
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

    def _perform(self, runner: Runner, request: Request) -> Answer:
        if isinstance(request, Serve):
            runner.served = request.pair
            return Answer(None, self.now)
        self.seen.add((type(request), request.kind))
        if self.away:
            raise ApiFailure("away")
        return Answer(copy.deepcopy(self._answered(request)), self.now)

    def _answered(self, request: Request) -> Any:
        match request:
            case Get(kind, name):
                return self.objects.get((kind, name))
            case Create(kind, manifest):
                if (kind, manifest["metadata"]["name"]) in self.objects:
                    raise Conflict("exists")
                self.put((kind, manifest["metadata"]["name"]), manifest)
            case Replace(kind, name, manifest):
                self._check((kind, name), manifest)
                self.put((kind, name), manifest)
            case Patch(kind, name, patch, _):
                self._check((kind, name), patch)
                if kind is Kind.CONFIGURATION:
                    self._remember()
                    self.meddled = False
                self.put((kind, name), merged(self.objects[kind, name], patch))
            case _:
                raise AssertionError(request)
        return {}

    def _check(self, key: tuple[Kind, str], manifest: dict[str, Any]) -> None:
        if key not in self.objects:
            raise ApiFailure("404")
        if manifest["metadata"]["resourceVersion"] != self.objects[key]["metadata"]["resourceVersion"]:
            raise Conflict("another version")


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

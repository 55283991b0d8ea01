"""The documents of a changing cluster: a mirror of each collection that ``analyze`` reads, filled by a watch.

Each object is reduced by :mod:`webhook.cluster.redaction.objects`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from time import monotonic
from typing import Any
from urllib.parse import quote

from webhook.cluster.api import resources
from webhook.cluster.api.errors import ApiError, Denied
from webhook.cluster.api.reflector import Reflector
from webhook.cluster.api.resources import Resource
from webhook.cluster.api.session import Session
from webhook.cluster.redaction.objects import Object
from webhook.cluster.snapshot.freshness import Standing
from webhook.cluster.snapshot.installation import ENDPOINTS
from webhook.cluster.snapshot.lists import (
    EVERYWHERE,
    NAMESPACES,
    OF_THE_WEBHOOK,
    Found,
    Listed,
    about_cluster,
    of_namespace,
    of_the_webhook,
    permission_to_list_pods,
    version_of,
)
from webhook.cluster.snapshot.mirror import Kept, objects_of, read_pod, reader_of, weigh, weigh_pod
from webhook.cluster.snapshot.model import KnownPod, Setting, Snapshot, read_snapshot
from webhook.cluster.state.cache import FAILING_SECONDS, Cache, Form, Limit
from webhook.decisions.configuration import CertificateSettings
from webhook.objects.claims import VERSION
from webhook.objects.webhook_registration import CONFIGURATION
from webhook.words.errors import FormatError, GpuTopologyError, NoNamespace

SECONDS = 10.0
"""The time limit of one request."""
_LIMIT = Limit(objects=300_000, bytes=1024 * 1024 * 1024)
_TOO_MUCH = "there are more of them than this program keeps, and what is beyond is left out"
_AROUND_SECONDS = 5.0
"""The time between two reads of the API server's time and the planner's Lease, which are not watched."""
_SECRET_TURNS = 120
"""The number of these reads with one read of the certificates, which change in weeks."""
_SETTLED_SECONDS = 30.0
"""The time within which each collection has been read, or has failed."""


class FollowedCluster:
    """A cluster, followed by watches.

    Args:
        session: The connection to its API server.
        namespace: The namespace of the pods; None for all.
        setting: The facts beside the documents.
        certificates: The names of the webhook's registration and Secret.
        tell: A function that takes failures, for the terminal.
    """

    def __init__(
        self,
        session: Session,
        namespace: str | None,
        setting: Setting,
        certificates: CertificateSettings,
        tell: Callable[[str], None],
    ) -> None:
        self.changed = asyncio.Event()
        self._session = session
        self._setting = setting
        self._certificates = certificates
        self._ahead = timedelta()
        """The time by which the clock of the API server is ahead of ours."""
        self._answered, self._away = monotonic(), ""
        """The time of the API server's last answer, and why it is silent. A watch may be silent for a minute."""
        self._kubernetes = ""
        self._around: dict[str, Found] = {}
        """The results of the last reads of the version of Kubernetes, the planner's Lease and the Secret."""
        self._pods = Cache[KnownPod](
            "pods", Form(read_pod, weigh_pod, _LIMIT), tell=tell, clock=monotonic, changed=self._change
        )
        self._others: dict[str, Cache[Kept]] = {}
        self._errors = Counter[tuple[str, str]]()
        """The failed requests, by collection and kind of failure."""
        self._reflectors = [Reflector(session, _pods_of(namespace), self._pods, errors=self._errors)]
        self._namespace = namespace
        for collection in (NAMESPACES, *EVERYWHERE, *of_namespace(namespace)):
            self._mirror(collection, tell)

    def _mirror(self, collection: Listed, tell: Callable[[str], None]) -> None:
        # Leases are renewed all the time, and their ages are computed without a message, so they report no change.
        changed = None if collection.kind == "Lease" else self._change
        cache = Cache[Kept](
            collection.resource,
            Form(reader_of(collection.version, collection.kind), weigh, _LIMIT),
            tell=tell,
            clock=monotonic,
            changed=changed,
        )
        self._others[collection.name] = cache
        self._reflectors.append(
            Reflector(self._session, _resource(collection, self._namespace), cache, errors=self._errors)
        )

    def work(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the tasks that run while the cluster is followed."""
        yield from (reflector.run() for reflector in self._reflectors)
        yield self._look_around()

    async def settled(self) -> None:
        """Wait until each collection was read, or cannot be read.

        Raises:
            GpuTopologyError: pods cannot be read.
        """
        caches: list[Cache[Any]] = [self._pods, *self._others.values()]
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLED_SECONDS):
                while not all(cache.filled or cache.problem for cache in caches):
                    await asyncio.sleep(0.02)
        if not self._pods.filled:
            raise GpuTopologyError(self._why_no_pods())
        if self._namespace and self._others["Namespace"].filled and not self._others["Namespace"].get(self._namespace):
            raise NoNamespace(self._namespace)

    def _why_no_pods(self) -> str:
        problem = self._pods.problem or f"pods: no answer within {_SETTLED_SECONDS:.0f} s"
        return f"{problem}. {permission_to_list_pods(self._namespace)}" if self._is_denied("pods") else problem

    def _is_denied(self, collection: str) -> bool:
        return (collection, Denied.kind) in self._errors

    def reader(self) -> Callable[[], Snapshot]:
        """Return a function that reads the present cluster; see :class:`webhook.insight.page.following.Source`."""
        pods = list(self._pods.values().values())
        others = [each for cache in self._others.values() for each in objects_of(cache)]
        about = self._about()
        around = [each for found in self._around.values() for each in found.documents.others]
        setting = self._setting
        return lambda: read_snapshot([*others, *around, about], pods, setting)

    def standing(self) -> Standing:
        """Return the freshness: whether pods and nodes are followed."""
        at, reason = self._heard()
        if reason:
            return Standing(live=False, at=_told(at), since=_told(at), reason=reason)
        return Standing(live=True, at=_told(at))

    def _heard(self) -> tuple[datetime, str]:
        """Return the time of the known state, by the API server's clock, and the reason if it is not the present."""
        now = datetime.now(UTC) + self._ahead
        silent, reason = next(self._silences(), (0.0, ""))
        return now - timedelta(seconds=silent), reason

    def _silences(self) -> Iterator[tuple[float, str]]:
        """Yield each silence that is too long: its seconds and its reason."""
        if self._away and (silent := monotonic() - self._answered) > FAILING_SECONDS:
            yield silent, self._away
        for cache in (self._pods, self._others["Node"]):
            if cache.filled and (silent := cache.silence()):
                yield silent, cache.problem or f"{cache.kind}: nothing was heard of them for {silent:.0f} s"

    def _change(self, _: str, __: object, ___: object) -> None:
        self.changed.set()

    def _about(self) -> Object:
        about = Found(read=[kind for kind, cache in self._others.items() if cache.filled and not cache.is_incomplete])
        every: list[Cache[Any]] = [self._pods, *self._others.values()]
        for cache in every:
            if not cache.filled:
                problem = cache.problem or "no answer yet"
                about.leave_out(cache.kind, problem, is_denied=self._is_denied(cache.kind))
            elif cache.is_incomplete:
                about.leave_out(cache.kind, _TOO_MUCH)
        for found in self._around.values():
            about.read += found.read
            about.unread += found.unread
        return about_cluster(self._heard()[0], about.read, about.unread, self._kubernetes)

    async def _look_around(self) -> None:
        for turn in count():
            try:
                await self._read_around(is_secret_due=turn % _SECRET_TURNS == 0)
                self._answered, self._away = monotonic(), ""
            except (ApiError, FormatError) as error:
                self._away = str(error)
            await asyncio.sleep(_AROUND_SECONDS)

    async def _read_around(self, *, is_secret_due: bool) -> None:
        version = Found()
        self._kubernetes, at = await version_of(self._session, version)
        self._ahead = at - datetime.now(UTC)
        self._around["version"] = version
        registrations = list(objects_of(self._others[CONFIGURATION]))
        for kind in OF_THE_WEBHOOK if is_secret_due or not self._is_secret_asked else ("Lease", ENDPOINTS):
            found = Found()
            await of_the_webhook(self._session, self._certificates, registrations, found, kinds=(kind,))
            self._around[kind] = found

    @property
    def _is_secret_asked(self) -> bool:
        """True if the Secret was requested. That needs the registration, which may be unread at the first look."""
        secret = self._around.get("Secret", Found())
        return bool(secret.read or secret.unread)


def _told(at: datetime) -> str:
    return at.strftime("%H:%M:%S UTC")


def _pods_of(namespace: str | None) -> Resource:
    if namespace is None:
        return resources.PODS
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    return Resource("pods", path, resources.PODS.query, all_namespaces=True)


def _resource(collection: Listed, namespace: str | None) -> Resource:
    only = (
        f"fieldSelector=metadata.name%3D{quote(namespace, safe='')}" if namespace and collection is NAMESPACES else ""
    )
    return Resource(
        collection.resource,
        collection.path,
        collection.query or only,
        all_namespaces=collection.has_namespaces,
        api=collection.version if collection.version == VERSION else "",
    )

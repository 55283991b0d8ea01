"""The Lease by which one of several replicas leads, as JSON objects; who leads is decided elsewhere."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgspec

from webhook.kube.errors import Malformed, NotFound
from webhook.kube.session import Session
from webhook.kube.status import failure
from webhook.model.nesting import decode_answer

ANSWER_BYTES = 1024 * 1024

Lease = dict[str, Any]
_LEASE = msgspec.json.Decoder(Lease)


class LeaderLease:
    """Reads and writes one Lease. Every method may raise :class:`webhook.kube.errors.ApiError`.

    Args:
        session: To the API server.
        namespace: Of the Lease.
        name: Of the Lease.
        seconds: How long one request may take.
    """

    def __init__(self, session: Session, *, namespace: str, name: str, seconds: float) -> None:
        self._session = session
        self._namespace = namespace
        self._name = name
        self._seconds = seconds
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"

    async def get(self) -> Lease | None:
        """The Lease, ``None`` if there is none."""
        with suppress(NotFound):
            return await self._ask("get", "GET", self._own)
        return None

    async def create(self, spec: Mapping[str, Any]) -> None:
        """Make it; ``Conflict`` if another replica was quicker."""
        metadata = {"name": self._name, "namespace": self._namespace}
        manifest = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        await self._ask("create", "POST", self._collection, manifest)

    async def replace(self, lease: Lease, spec: Mapping[str, Any]) -> None:
        """Give the Lease that was read another ``spec``; ``Conflict`` if it is no longer the one that was read."""
        await self._ask("replace", "PUT", self._own, {**lease, "spec": spec})

    @property
    def _own(self) -> str:
        return f"{self._collection}/{quote(self._name, safe='')}"

    async def _ask(self, verb: str, method: str, path: str, body: object = None) -> Lease:
        what = f"{verb} Lease {self._namespace}/{self._name}"
        data = None if body is None else msgspec.json.encode(body)
        answer = await self._session.ask(what, method, path, data, limit=ANSWER_BYTES, seconds=self._seconds)
        if not 200 <= answer.status < 300:
            raise failure(what, answer)
        try:
            return decode_answer(_LEASE, answer.body)
        except msgspec.DecodeError:
            raise Malformed(f"{what}: expected an object from the API server, found something else") from None

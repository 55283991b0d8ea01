"""Changes of single pods, and what the API server says of them: each answer is the whole pod, for a mirror."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from urllib.parse import quote

import msgspec

from webhook.kube.errors import Malformed, NotFound
from webhook.kube.live import OBJECT_BYTES
from webhook.kube.pages import pages
from webhook.kube.session import JSON, Session
from webhook.kube.status import failure
from webhook.kube.versioned import VersionedObject, read_versioned
from webhook.model.patch import Operation

JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

_encode = msgspec.json.Encoder().encode


class PodPatches:
    """Patches pods, and reads them again. Every method may raise :class:`webhook.kube.errors.ApiError`.

    Args:
        session: To the API server.
        field_manager: How we are named as the writer of fields.
        seconds: How long one request may take, if that is not what the session says.
    """

    def __init__(self, session: Session, *, field_manager: str, seconds: float | None = None) -> None:
        self._session = session
        self._query = f"fieldManager={quote(field_manager, safe='')}"
        self._seconds = seconds

    async def patch(self, namespace: str, name: str, operations: Sequence[Operation]) -> VersionedObject:
        """Make all the operations, or none: the pod afterwards.

        A ``test`` that fails is :class:`webhook.kube.errors.ApiRefused` with status 422, as is a change that the API
        server does not allow: only the pod itself can tell which.
        """
        what = f"patch pod {namespace}/{name}"
        return await self._ask(what, "PATCH", f"{_path(namespace, name)}?{self._query}", operations, JSON_PATCH)

    async def set_condition(
        self, namespace: str, name: str, condition: Mapping[str, str], *, uid: str
    ) -> VersionedObject:
        """Merge ``condition`` into those of the pod's status, by its ``type``: the pod afterwards.

        Raises:
            Conflict: the pod of that name has another uid.
        """
        what = f"patch status of pod {namespace}/{name}"
        patch = {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}
        return await self._ask(what, "PATCH", f"{_path(namespace, name)}/status?{self._query}", patch, STRATEGIC)

    async def get(self, namespace: str, name: str) -> VersionedObject | None:
        """The pod as it is now, ``None`` if there is none of that name."""
        try:
            return await self._ask(f"get pod {namespace}/{name}", "GET", _path(namespace, name))
        except NotFound:
            return None

    async def without_node(self, namespace: str = "") -> AsyncGenerator[VersionedObject, None]:
        """The pods that no scheduler has bound, of one namespace or of all, as they are read page by page.

        Raises:
            Expired: the list was interrupted for too long; what comes is no longer to be had.
        """
        place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        what = "list pods without a node"
        async with aclosing(pages(self._session, what, f"/api/v1{place}/pods?fieldSelector=spec.nodeName%3D")) as found:
            async for page in found:
                for document in page.items:
                    yield _read(what, document)

    async def _ask(
        self, what: str, method: str, path: str, body: object = None, content_type: str = JSON
    ) -> VersionedObject:
        data = None if body is None else _encode(body)
        answer = await self._session.ask(
            what, method, path, data, limit=OBJECT_BYTES, content_type=content_type, seconds=self._seconds
        )
        if not 200 <= answer.status < 300:
            raise failure(what, answer)
        return _read(what, answer.body)


def _read(what: str, document: bytes | msgspec.Raw) -> VersionedObject:
    try:
        return read_versioned(document, all_namespaces=True)
    except ValueError as error:
        raise Malformed(f"{what}: expected a pod, found none: {error}") from None


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"

"""Pods as they are at this moment, each read from the API server when it is asked for."""

import asyncio
import re
from urllib.parse import quote

import msgspec

from webhook.kube.errors import ApiError, Malformed
from webhook.kube.live import get_namespaced, with_fix
from webhook.kube.session import Session
from webhook.kube.status import failure
from webhook.model import names
from webhook.model.errors import PodsUnreadable
from webhook.model.nesting import decode_answer
from webhook.model.object_names import OBJECT

PAGE_BYTES = 16 * 1024 * 1024
PAGE_PODS = 500

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""k8s.io/apimachinery, pkg/util/validation: IsValidLabelValue, without the empty one."""
_ROLE = "The webhook needs a role to get and list pods"


class _ListMeta(msgspec.Struct, rename="camel"):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct):
    """A ``PodList``, its pods as they came."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None


_PAGE = msgspec.json.Decoder(_Page)


class LivePods:
    """Reads pods with one GET each; a group with one LIST for each 500 pods.

    Both ask for the newest state, not for that of a cache: they name no resourceVersion
    (kubernetes.io, "Resource versions").
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The pod as JSON, or ``None`` if there is none of that name.

        Raises:
            PodsUnreadable: no answer at the deadline, by default within ``binding.readSeconds``; or one that is no pod.
        """
        try:
            return await get_namespaced(self._session, "pod", "/api/v1", namespace, name, deadline=deadline)
        except ApiError as error:
            raise self._unreadable(error) from None

    async def group(self, namespace: str, group: str, node: str, *, deadline: float | None = None) -> list[bytes]:
        """The pods with the label ``gpu.topology/group`` of this value that hold GPUs of a node, as JSON.

        Raises:
            PodsUnreadable: as above.
        """
        if not _LABEL_VALUE.fullmatch(group) or not OBJECT.fullmatch(namespace) or not OBJECT.fullmatch(node):
            return []
        what = f"list pods of group {group} on node {node} in {namespace}"
        running = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"  # others have given theirs back
        selectors = f"labelSelector={_query(f'{names.GROUP}={group}')}&fieldSelector={_query(running)}"
        path = f"/api/v1/namespaces/{namespace}/pods?{selectors}&limit={PAGE_PODS}"
        if deadline is None:
            deadline = asyncio.get_running_loop().time() + self._session.seconds
        try:
            return await self._pages(what, path, deadline)
        except ApiError as error:
            raise self._unreadable(error) from None

    async def _pages(self, what: str, path: str, deadline: float) -> list[bytes]:
        pods: list[bytes] = []
        following: str | None = ""
        while following is not None:
            answer = await self._session.get(what, path + following, limit=PAGE_BYTES, deadline=deadline)
            if answer.status != 200:
                raise failure(what, answer)
            try:
                page = decode_answer(_PAGE, answer.body)
            except msgspec.DecodeError as error:
                raise Malformed(f"{what}: expected a list, found none: {error}") from None
            pods += map(bytes, page.items or ())
            following = f"&continue={_query(page.metadata.continue_)}" if page.metadata.continue_ else None
        return pods

    def _unreadable(self, error: ApiError) -> PodsUnreadable:
        return PodsUnreadable(with_fix(error, self._session, missing_role=_ROLE))


def _query(text: str) -> str:
    return quote(text, safe="")

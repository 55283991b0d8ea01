"""Pods as they are at this moment, each read from the API server when it is asked for."""

import asyncio
import re
from urllib.parse import quote

import msgspec

from webhook.kube.errors import ApiError, ApiServerAway, Malformed, NotFound
from webhook.kube.session import Session
from webhook.kube.status import failure
from webhook.model import names
from webhook.model.errors import PodsUnreadable

POD_BYTES = 4 * 1024 * 1024
"""More than an object may have: etcd refuses requests above 1.5 MiB (etcd server/embed/config.go)."""
PAGE_BYTES = 16 * 1024 * 1024
PAGE_PODS = 500

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""k8s.io/apimachinery, pkg/util/validation: IsValidLabelValue, without the empty one."""
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""The same: IsDNS1123Subdomain. Whatever is asked for with such a name stays within its path and selector."""
_NAMES = re.compile(f"{_NAME.pattern}/{_NAME.pattern}")

_LATER = "The scheduler tries again"
_FIXES = {
    401: "The API server does not know the webhook: its token has ended or is another cluster's",
    403: "The webhook needs a role to get and list pods",
}


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
        if not _NAMES.fullmatch(f"{namespace}/{name}"):
            return None
        what = f"get pod {namespace}/{name}"
        try:
            path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            answer = await self._session.get(what, path, limit=POD_BYTES, deadline=deadline)
            if answer.status != 200:
                raise failure(what, answer)
        except NotFound:
            return None
        except ApiError as error:
            raise self._unreadable(error) from None
        if not answer.body.startswith(b"{"):
            raise PodsUnreadable(f"{what}: expected a pod, found something else")
        return answer.body

    async def group(self, namespace: str, group: str, node: str, *, deadline: float | None = None) -> list[bytes]:
        """The pods with the label ``gpu.topology/group`` of this value that hold GPUs of a node, as JSON.

        Raises:
            PodsUnreadable: as above.
        """
        if not _LABEL_VALUE.fullmatch(group) or not _NAME.fullmatch(namespace) or not _NAME.fullmatch(node):
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
                page = _PAGE.decode(answer.body)
            except msgspec.MsgspecError as error:
                raise Malformed(f"{what}: expected a list, found none: {error}") from None
            pods += map(bytes, page.items or ())
            following = f"&continue={_query(page.metadata.continue_)}" if page.metadata.continue_ else None
        return pods

    def _unreadable(self, error: ApiError) -> PodsUnreadable:
        fix = _FIXES.get(error.status, _LATER if isinstance(error, ApiServerAway) else "")
        if error.status == 401 and self._session.problem:
            fix = f"{fix}. It could not be renewed: {self._session.problem}"
        return PodsUnreadable(f"{error}" + (f". {fix}" if fix else ""))


def _query(text: str) -> str:
    return quote(text, safe="")

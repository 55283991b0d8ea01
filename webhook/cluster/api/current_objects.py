"""Pods, claims and namespaces in their present state, for decisions for which a mirror may be too old.

Each object is read on demand, in its newest state and not in that of a cache: no resourceVersion is named
(kubernetes.io, "Resource versions").
"""

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing

from webhook.cluster import kinds
from webhook.cluster.api.errors import AnswerTooLong, ApiError, ApiServerAway, Malformed
from webhook.cluster.api.object_version import VersionedObject
from webhook.cluster.api.verbs import MOST_PER_PAGE, OBJECT_BYTES, Api, Paging
from webhook.cluster.kinds import Kind
from webhook.decisions.claims.slices import Pools
from webhook.words import names
from webhook.words.errors import ClaimsUnreadable, PodsUnreadable, StateUnknown
from webhook.words.object_names import NAMESPACE, OBJECT

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""A label value that is not empty: k8s.io/apimachinery, pkg/util/validation, IsValidLabelValue."""
CLAIM_BYTES = 256 * 1024
"""The most bytes of a claim or template that are read. Whoever may make one may make it as long as etcd takes, 1.5 MiB,
and a pod may name 32. The longest that ``gpu-topology claim`` prints has 82 KiB, twice with the annotation of
``kubectl apply``."""
GROUP_BYTES = 16 * 1024 * 1024
"""The most bytes of a group's pods on one node. A pod may have 1.5 MiB, and its author may name any node in it, as
often as the quota allows; a node runs 110 pods by default, and most have less than 30 KB."""
_LATER = "The scheduler tries again"
_UNKNOWN = "The API server does not know the webhook: its token has ended or is another cluster's"
_POD_ROLE = "The webhook needs a role to get and list pods"
_CLAIM_ROLE = (
    "The webhook needs a role to get resourceclaims and resourceclaimtemplates: set claims.enabled of the chart"
)


class LivePods:
    """The pods of the API server, as :class:`webhook.cluster.state.Pods`.

    A pod takes one GET, and a group takes one LIST for each 500 pods.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """Return the pod as JSON, or ``None`` if there is none of that name.

        Raises:
            PodsUnreadable: no answer before the deadline, by default within ``binding.readSeconds``, or an answer that
                is no pod.
        """
        try:
            return await _document(self._api, kinds.POD, namespace, name, deadline)
        except ApiError as error:
            raise PodsUnreadable(_with_fix(error, self._api, missing_role=_POD_ROLE)) from None

    async def group(self, namespace: str, group: str, node: str, *, deadline: float | None = None) -> list[bytes]:
        """Return the pods of the group (label ``gpu.topology/group``) that hold GPUs of a node, as JSON.

        Raises:
            PodsUnreadable: as for :meth:`pod`.
        """
        if not _LABEL_VALUE.fullmatch(group) or not OBJECT.fullmatch(namespace) or not OBJECT.fullmatch(node):
            return []
        running = f"spec.nodeName={node},{kinds.NOT_ENDED}"  # pods that have ended hold no GPUs
        pods = kinds.POD.having(namespace=namespace, labels=f"{names.GROUP}={group}", fields=running)
        what = f"list pods of group {group} on node {node} in {namespace}"
        if deadline is None:
            deadline = asyncio.get_running_loop().time() + self._api.session.seconds
        try:
            found, size = list[bytes](), 0
            async with aclosing(self._api.pages(pods, Paging(MOST_PER_PAGE), what=what, deadline=deadline)) as pages:
                async for page in pages:
                    of_page = [bytes(item) for item in page.items]
                    found += of_page
                    size += sum(map(len, of_page))
                    if size > GROUP_BYTES:
                        raise AnswerTooLong(f"{what}: expected at most {GROUP_BYTES} bytes, found more")
            return found
        except ApiError as error:
            raise PodsUnreadable(_with_fix(error, self._api, missing_role=_POD_ROLE)) from None


class LiveClaims:
    """The claims of the API server, as :class:`webhook.cluster.state.Claims`: one GET for each claim.

    Args:
        api: The API server.
        pools: A function that returns the devices that DRA drivers publish. It may raise StateUnknown.
    """

    def __init__(self, api: Api, pools: Callable[[], Pools]) -> None:
        self._api = api
        self.pools = pools

    async def claim(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """Return the ResourceClaim as JSON, or ``None`` if there is none of that name.

        Raises:
            ClaimsUnreadable: no answer before the deadline, by default within ``binding.readSeconds``, or an answer
                that is no ResourceClaim.
        """
        return await self._get(kinds.CLAIM, namespace, name, deadline)

    async def template(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """Return the ResourceClaimTemplate as JSON, or ``None`` if there is none of that name.

        Raises:
            ClaimsUnreadable: as for :meth:`claim`.
        """
        return await self._get(kinds.CLAIM_TEMPLATE, namespace, name, deadline)

    async def _get(self, kind: Kind, namespace: str, name: str, deadline: float | None) -> bytes | None:
        try:
            return await _document(self._api, kind, namespace, name, deadline, limit=CLAIM_BYTES)
        except ApiError as error:
            raise ClaimsUnreadable(_with_fix(error, self._api, missing_role=_CLAIM_ROLE)) from None


class LiveNamespaces:
    """The namespaces of the API server, as :class:`webhook.cluster.state.cluster.Namespaces`: one GET for each."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def get(self, name: str) -> VersionedObject | None:
        """Return the namespace, or ``None`` if there is none of that name.

        Raises:
            StateUnknown: the request failed.
        """
        if not NAMESPACE.fullmatch(name):
            return None
        try:
            found = await self._api.find(kinds.NAMESPACE, name, form=kinds.NAMESPACES.watch_form)
            return None if found is None else found.versioned()
        except ApiError as error:
            raise StateUnknown(str(error)) from None


async def _document(
    api: Api, kind: Kind, namespace: str, name: str, deadline: float | None, *, limit: int = OBJECT_BYTES
) -> bytes | None:
    """Return the object as it was sent, or ``None``. Decisions decode it themselves.

    Raises:
        ApiError: no answer in time, or one without an object.
    """
    found = await api.find(kind, name, namespace, limit=limit, deadline=deadline)
    if found is None:
        return None
    if not found.document.startswith(b"{"):
        raise Malformed(f"{found.what}: expected a {kind.word}, found something else")
    return found.document


def _with_fix(error: ApiError, api: Api, *, missing_role: str) -> str:
    """Return the error's text with advice."""
    fixes = {401: _UNKNOWN, 403: missing_role}
    fix = fixes.get(error.status, _LATER if isinstance(error, ApiServerAway) else "")
    if error.status == 401 and api.session.problem:
        fix = f"{fix}. It could not be renewed: {api.session.problem}"
    return f"{error}" + (f". {fix}" if fix else "")

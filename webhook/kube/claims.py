"""ResourceClaims and their templates as they are at this moment, each read when it is asked for."""

from collections.abc import Callable

from webhook.claims.slices import Pools
from webhook.kube.errors import ApiError, NotServed
from webhook.kube.live import get_namespaced, with_fix
from webhook.kube.resources import CLAIMS_API, CLAIMS_GROUP
from webhook.kube.session import Session
from webhook.model.errors import ClaimsUnreadable

_ROLE = "The webhook needs a role to get resourceclaims and resourceclaimtemplates: set claims.enabled of the chart"


class LiveClaims:
    """:class:`webhook.state.Claims`: reads each with one GET.

    Args:
        session: To the API server.
        pools: Gives the devices that DRA drivers publish. It may raise StateUnknown.
    """

    def __init__(self, session: Session, pools: Callable[[], Pools]) -> None:
        self._session = session
        self._pools = pools

    def pools(self) -> Pools:
        """The devices that DRA drivers publish.

        Raises:
            StateUnknown: not all is known yet.
        """
        return self._pools()

    async def claim(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The ResourceClaim as JSON, or ``None`` if there is none of that name.

        Raises:
            ClaimsUnreadable: no answer at the deadline, by default within ``binding.readSeconds``; or one that is no
                ResourceClaim.
        """
        return await self._get("resourceclaim", namespace, name, deadline)

    async def template(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The ResourceClaimTemplate as JSON, or ``None`` if there is none of that name.

        Raises:
            ClaimsUnreadable: as above.
        """
        return await self._get("resourceclaimtemplate", namespace, name, deadline)

    async def _get(self, kind: str, namespace: str, name: str, deadline: float | None) -> bytes | None:
        try:
            return await get_namespaced(self._session, kind, CLAIMS_API, namespace, name, deadline=deadline)
        except ApiError as error:
            if error.status == 404:
                error = NotServed(f"get {kind} {namespace}/{name}", CLAIMS_GROUP)
            raise ClaimsUnreadable(with_fix(error, self._session, missing_role=_ROLE)) from None

"""What tells the versions of Kubernetes and of HAMi, and what DeviceClasses serve, as the API server sends it."""

from urllib.parse import quote

from webhook.kube.errors import AnswerTooLong, ApiServerAway
from webhook.kube.session import Session
from webhook.kube.status import failure
from webhook.model import names
from webhook.model.errors import StateUnknown

ANSWER_BYTES = 4 * 1024 * 1024
MOST = 10
MOST_CLASSES = 500


class LiveVersions:
    """Reads them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def kubernetes(self) -> bytes:
        """The answer of ``/version``: a JSON object with ``gitVersion``.

        Raises:
            StateUnknown: there is none now.
            ApiRefused: there will be none, for example because a role is missing.
            AnswerTooLong: there is one, but longer than 4 MiB.
        """
        return await self._get("get the version of Kubernetes", "/version")

    async def hami(self) -> bytes:
        """The Deployments of HAMi's scheduler, ten at most: a ``DeploymentList``.

        Raises:
            StateUnknown, ApiRefused, AnswerTooLong: as above.
        """
        label, value = names.HAMI_SCHEDULER_LABEL
        selector = quote(f"{label}={value}", safe="")
        return await self._get(
            "list Deployments of HAMi's scheduler", f"/apis/apps/v1/deployments?labelSelector={selector}&limit={MOST}"
        )

    async def device_classes(self) -> bytes:
        """The DeviceClasses, 500 at most: a ``DeviceClassList``. It is empty before Kubernetes 1.34, which has none.

        Raises:
            StateUnknown, ApiRefused, AnswerTooLong: as above.
        """
        return await self._get(
            "list DeviceClasses",
            f"/apis/resource.k8s.io/v1/deviceclasses?limit={MOST_CLASSES}",
            if_not_served=b'{"items":[]}',
        )

    async def _get(self, what: str, path: str, *, if_not_served: bytes | None = None) -> bytes:
        try:
            answer = await self._session.get(what, path, limit=ANSWER_BYTES)
            if answer.status == 404 and if_not_served is not None:
                return if_not_served
            if answer.status != 200:
                raise failure(what, answer)
        except AnswerTooLong:
            raise
        except ApiServerAway as error:
            raise StateUnknown(str(error)) from None
        return answer.body

"""The requests of the care of certificates to the API server: :class:`certs.api.ApiServer`."""

from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlencode

from certs.errors import ApiFailure
from certs.errors import Conflict as WrittenMeanwhile
from certs.requests import Answer, Create, Get, Patch, Replace, Request, Serve
from webhook.cluster.api.errors import ApiError, Conflict, NotFound
from webhook.cluster.api.session import Session
from webhook.cluster.api.verbs import Api
from webhook.cluster.kinds import JSON

SECONDS = 10.0
"""The time limit of one request."""
ANSWER_BYTES = 4 * 1024 * 1024
"""The most bytes of one object; etcd refuses objects above 1.5 MiB."""


class CertificateRequests:
    """Sends the requests without retries, because the next round tries again.

    Args:
        session: The connection to the API server, which this closes.
        namespace: The namespace of Secrets and Leases.
        field_manager: Our name as the writer of fields.
    """

    def __init__(self, session: Session, *, namespace: str, field_manager: str) -> None:
        self._api = Api(session)
        self._namespace = namespace
        self._field_manager = field_manager

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def send(self, request: Request) -> Answer:
        """Send the request; see :meth:`certs.api.ApiServer.send`."""
        if isinstance(request, Serve):
            raise TypeError("expected a request for the API server")
        written = _written(request, request.kind.value.format(self._namespace), self._field_manager)
        what = f"{written.method} {written.path.partition('?')[0]}"
        try:
            reply = await self._api.ask(
                what, written.method, written.path, written.body, content_type=written.content_type, limit=ANSWER_BYTES
            )
            return Answer(reply.object(), _date(reply.date))
        except NotFound as error:
            if isinstance(request, Get):
                return Answer(None, _date(error.date))
            raise ApiFailure(str(error)) from None
        except Conflict as error:
            raise WrittenMeanwhile(str(error)) from None
        except ApiError as error:
            raise ApiFailure(str(error)) from None


class _Written(NamedTuple):
    method: str
    path: str
    """The path with the query."""
    body: object = None
    content_type: str = JSON


def _written(request: Get | Create | Replace | Patch, place: str, field_manager: str) -> _Written:
    """Return the request as HTTP; ``place`` is the path of its collection."""
    match request:
        case Get(name=name):
            return _Written("GET", f"{place}/{name}")
        case Create(manifest=manifest):
            return _Written("POST", place, manifest)
        case Replace(name=name, manifest=manifest):
            return _Written("PUT", f"{place}/{name}", manifest)
        case Patch(name=name, patch=patch, type=patch_type):
            query = urlencode({"fieldManager": field_manager})
            return _Written("PATCH", f"{place}/{name}?{query}", patch, patch_type.value)


def _date(said: datetime | None) -> datetime:
    """Return the time of the answer by the API server's clock, or by ours if the answer has no date.

    The API server gives whole seconds. Our microseconds make two writes within one second differ.
    """
    now = datetime.now(UTC)
    return said.replace(microsecond=now.microsecond) if said else now

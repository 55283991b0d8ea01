"""Carries what the care of certificates asks to the API server: :class:`certs.api.ApiServer`."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from certs.errors import ApiFailure
from certs.errors import Conflict as WrittenMeanwhile
from certs.requests import Answer, Create, Get, List, Patch, PatchType, Replace, Request, Serve
from webhook.kube.errors import ApiError, Conflict, NotFound
from webhook.kube.session import JSON, Session
from webhook.kube.status import failure
from webhook.model.nesting import decode_answer

SECONDS = 10.0
"""For one request."""
ANSWER_BYTES = 16 * 1024 * 1024
"""A MutatingWebhookConfiguration or a list of Leases; etcd refuses objects above 1.5 MiB."""
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class CertificateRequests:
    """Makes the requests, without trying again: the next round does.

    Args:
        session: To the API server; closed with this.
        namespace: Of Secrets and Leases.
        field_manager: How we are named as the writer of fields.
    """

    def __init__(self, session: Session, *, namespace: str, field_manager: str) -> None:
        self._session = session
        self._namespace = namespace
        self._field_manager = field_manager

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def send(self, request: Request) -> Answer:
        """Make the request; :meth:`certs.api.ApiServer.send`."""
        if isinstance(request, Serve):
            raise TypeError("expected a request for the API server")
        written = _written(request, request.kind.value.format(self._namespace), self._field_manager)
        what = f"{written.method} {written.path.partition('?')[0]}"
        body = None if written.body is None else msgspec.json.encode(written.body)
        try:
            answer = await self._session.ask(
                what, written.method, written.path, body, limit=ANSWER_BYTES, content_type=written.content_type
            )
            at = _date(answer.headers)
            if not 200 <= answer.status < 300:
                raise failure(what, answer)
            return Answer(decode_answer(_OBJECT, answer.body), at)
        except NotFound as error:
            if isinstance(request, Get):
                return Answer(None, at)
            raise ApiFailure(str(error)) from None
        except Conflict as error:
            raise WrittenMeanwhile(str(error)) from None
        except ApiError as error:
            raise ApiFailure(str(error)) from None
        except msgspec.DecodeError:  # never its text, which may be a Secret
            raise ApiFailure(f"{what}: expected an object from the API server, found something else") from None


class _Written(NamedTuple):
    method: str
    path: str
    """With the query."""
    body: object = None
    content_type: str = JSON


def _written(request: Get | List | Create | Replace | Patch, place: str, field_manager: str) -> _Written:
    """The request as HTTP; ``place`` is the path of its collection."""
    match request:
        case Get(name=name):
            return _Written("GET", f"{place}/{name}")
        case List(label=label):
            return _Written("GET", f"{place}?{urlencode({'labelSelector': label})}")
        case Create(manifest=manifest):
            return _Written("POST", place, manifest)
        case Replace(name=name, manifest=manifest):
            return _Written("PUT", f"{place}/{name}", manifest)
        case Patch(name=name, patch=patch, type=patch_type):
            query = {"fieldManager": field_manager} | ({"force": "true"} if patch_type is PatchType.APPLY else {})
            return _Written("PATCH", f"{place}/{name}?{urlencode(query)}", patch, patch_type.value)


def _date(headers: Mapping[str, str]) -> datetime:
    """When the API server answered; by our clock if it does not say so.

    It tells whole seconds. With our microseconds, what is written twice within one is not the same.
    """
    now = datetime.now(UTC)
    with suppress(TypeError, ValueError):
        return parsedate_to_datetime(headers.get("Date", "")).replace(tzinfo=UTC, microsecond=now.microsecond)
    return now

"""Requests to the API server and its answers, as HTTP; objects are what was sent. Somebody else exchanges them."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from certs.errors import ApiFailure, Conflict
from certs.requests import Answer, Create, Get, List, Patch, PatchType, Replace, Request, Serve

_LONGEST = 300
"""Characters of somebody else's message that are passed on."""


class Exchange(Protocol):
    """A way to the API server, for one thread at a time."""

    def send(
        self, method: str, path: str, query: Sequence[tuple[str, str]], body: object, content_type: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Make a request, once, and wait for its answer.

        Args:
            method: Of HTTP.
            path: Without the query.
            query: Names and values, not escaped.
            body: To be sent as JSON; None: nothing.
            content_type: Of the body.

        Returns:
            Status, headers, and body.

        Raises:
            OSError: there is no answer; the text says why.
        """

    def close(self) -> None:
        """Give the connections back."""


class ApiServer:
    """The API server, for one thread at a time.

    Args:
        exchange: The way there; closed with this.
        namespace: Of Secrets and Leases.
        field_manager: How we are named as the writer of fields.
    """

    def __init__(self, exchange: Exchange, *, namespace: str, field_manager: str) -> None:
        self._exchange = exchange
        self._namespace = namespace
        self._field_manager = field_manager

    def close(self) -> None:
        """Give the connections back."""
        self._exchange.close()

    def send(self, request: Request) -> Answer:
        """Make the request.

        Raises:
            Conflict: the object is no longer the one that was read, or exists already.
            ApiFailure: anything else that is no success, except that an object is not there for a :class:`Get`.
        """
        method, path, query, body, kind = self._written(request)
        what = f"{method} {path}"
        try:
            status, headers, data = self._exchange.send(method, path, query, body, kind)
        except OSError as error:
            raise ApiFailure(f"{what}: the API server cannot be reached: {_short(error)}") from None
        if status == 404 and isinstance(request, Get):
            return Answer(None, _date(headers))
        if not 200 <= status < 300:
            # A patch of what is gone, or the creation of what has come, failed because of somebody else.
            kind_of_failure = Conflict if status == 409 else ApiFailure
            raise kind_of_failure(f"{what}: {_reason(data)} ({status})")
        with suppress(ValueError):
            found = json.loads(data)
            if isinstance(found, dict):
                return Answer(found, _date(headers))
        raise ApiFailure(f"{what}: expected an object from the API server, found something else")

    def _written(self, request: Request) -> tuple[str, str, list[tuple[str, str]], Any, str]:
        """Method, path, query, body and content type."""
        if isinstance(request, Serve):
            raise TypeError("expected a request for the API server")
        place = request.kind.value.format(self._namespace)
        match request:
            case Get(name=name):
                return "GET", f"{place}/{name}", [], None, ""
            case List(label=label):
                return "GET", place, [("labelSelector", label)], None, ""
            case Create(manifest=manifest):
                return "POST", place, [], manifest, "application/json"
            case Replace(name=name, manifest=manifest):
                return "PUT", f"{place}/{name}", [], manifest, "application/json"
            case Patch(name=name, patch=patch, type=patch_type):
                query = [("fieldManager", self._field_manager)]
                if patch_type is PatchType.APPLY:
                    query.append(("force", "true"))
                return "PATCH", f"{place}/{name}", query, patch, patch_type.value


def _date(headers: Mapping[str, str]) -> datetime:
    """When the API server answered; by our clock if it does not say so.

    It tells whole seconds. With our microseconds, what is written twice within one is not the same.
    """
    now = datetime.now(UTC)
    with suppress(TypeError, ValueError):
        return parsedate_to_datetime(headers.get("Date", "")).replace(tzinfo=UTC, microsecond=now.microsecond)
    return now


def _reason(data: bytes) -> str:
    """The message of the Status in the body; never the body itself, which may be a Secret."""
    with suppress(ValueError, TypeError, KeyError):
        return _short(json.loads(data)["message"])
    return "no reason is given"


def _short(text: object) -> str:
    return " ".join(str(text).split())[:_LONGEST]

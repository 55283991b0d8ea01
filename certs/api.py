"""Sends requests to the API server with the official client, without its models: objects are what was sent."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from certs.errors import ApiFailure, Conflict
from certs.requests import Answer, Create, Get, List, Patch, PatchType, Replace, Request, Serve

CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 7.0
_LONGEST = 300
"""Characters of somebody else's message that are passed on."""


class ApiServer:
    """A connection to the API server, for one thread at a time.

    Args:
        configuration: Of the official client, loaded.
        namespace: Of Secrets and Leases.
        user_agent: How we name ourselves.
        field_manager: How we are named as the writer of fields.
    """

    def __init__(self, configuration: Configuration, *, namespace: str, user_agent: str, field_manager: str) -> None:
        configuration.retries = False  # when to try again is the caller's business
        self._client = ApiClient(configuration)
        self._client.user_agent = user_agent
        self._namespace = namespace
        self._field_manager = field_manager

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()  # type: ignore[no-untyped-call]  # kubernetes has no annotations there

    def send(self, request: Request) -> Answer:
        """Make the request.

        Raises:
            Conflict: the object is no longer the one that was read, or exists already.
            ApiFailure: anything else that is no success, except that an object is not there for a :class:`Get`.
        """
        method, path, query, body, kind = self._written(request)
        what = f"{method} {path}"
        try:
            status, headers, data = self._exchange(method, path, query, body, kind)
        except (HTTPError, OSError, ConfigException, ApiException) as error:
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

    def _exchange(
        self, method: str, path: str, query: list[tuple[str, str]], body: object, content_type: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = {"Accept": "application/json"} | ({"Content-Type": content_type} if content_type else {})
        parameters = self._client.param_serialize(
            method, path, query_params=query, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        answer = self._client.call_api(*parameters, _request_timeout=(CONNECT_SECONDS, ANSWER_SECONDS))
        return answer.status, answer.headers, answer.read()  # type: ignore[no-untyped-call]  # as above


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

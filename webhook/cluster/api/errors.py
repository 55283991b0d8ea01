"""The failures of a request to the API server."""

from datetime import datetime

from webhook.words.errors import GpuTopologyError


class ApiError(GpuTopologyError):
    """A failed request.

    Args:
        text: The message for the user.
        status: The HTTP status of the answer; 0 if there was none.
    """

    kind = "refused"
    """The kind of failure in counts."""

    def __init__(self, text: str, *, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class ApiServerAway(ApiError):
    """A failure that may pass: the API server cannot be reached, is overloaded, or does not know us at the moment.

    Args:
        text: The message for the user.
        status: The HTTP status of the answer; 0 if there was none.
        retry_after: The seconds for which the API server wants no request; 0 if it names none.
    """

    kind = "away"

    def __init__(self, text: str, *, status: int = 0, retry_after: float = 0.0) -> None:
        super().__init__(text, status=status)
        self.retry_after = retry_after


class AnswerTooLong(ApiServerAway):
    """An answer above the size limit."""


class ApiRefused(ApiError):
    """A refusal of a request that the API server understood. The same request will fail again."""


class Denied(ApiRefused):
    """A refusal for lack of a role. The API server knows us."""

    kind = "denied"


class NotFound(ApiRefused):
    """A missing object, by the API server's own words.

    Args:
        text: The message for the user.
        status: The HTTP status of the answer.
        date: The time of the answer by the API server's clock, if the answer has one.
    """

    kind = "not-found"

    def __init__(self, text: str, *, status: int = 404, date: datetime | None = None) -> None:
        super().__init__(text, status=status)
        self.date = date


class NotServed(ApiRefused):
    """A kind of objects that the API server does not have.

    Args:
        what: The request.
        api: The group and version of the objects.
        otherwise: The error for a caller who knows that such objects exist, because the answer may come from a
            misconfigured proxy; ``None`` if the answer is surely the API server's own.
    """

    kind = "not-served"

    def __init__(self, what: str, api: str, *, otherwise: ApiError | None = None) -> None:
        super().__init__(f"{what}: the API server does not serve {api}", status=404)
        self.otherwise = otherwise


class Conflict(ApiError):
    """A conflict: the object has changed since it was read, or exists already."""

    kind = "conflict"


class Expired(ApiError):
    """A version, or a next page of a list, that the API server no longer has. This is part of normal life."""

    kind = "expired"


class Malformed(ApiError):
    """An answer that no API server gives, or one that contradicts an earlier answer."""

    kind = "malformed"

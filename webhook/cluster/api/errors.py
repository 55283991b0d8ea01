"""How a request to the API server can fail."""

from datetime import datetime

from webhook.words.errors import GpuTopologyError


class ApiError(GpuTopologyError):
    """A request did not do what it should.

    Args:
        text: For the user.
        status: HTTP status of the answer; 0 if there was none.
    """

    kind = "refused"
    """A word for counts."""

    def __init__(self, text: str, *, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class ApiServerAway(ApiError):
    """The API server cannot be reached, is overloaded, or does not know us at the moment. Later it may work.

    Args:
        text: For the user.
        status: HTTP status of the answer; 0 if there was none.
        retry_after: Seconds for which the API server asked to be left alone; 0 if it did not say.
    """

    kind = "away"

    def __init__(self, text: str, *, status: int = 0, retry_after: float = 0.0) -> None:
        super().__init__(text, status=status)
        self.retry_after = retry_after


class AnswerTooLong(ApiServerAway):
    """The answer is longer than it may be."""


class ApiRefused(ApiError):
    """The API server understood the request and says no; the same request will fail again."""


class Denied(ApiRefused):
    """The API server knows us, and a role is missing."""

    kind = "denied"


class NotFound(ApiRefused):
    """The API server says that the object does not exist.

    Args:
        text: For the user.
        status: HTTP status of the answer.
        date: When it said so, by its own clock, if it says that.
    """

    kind = "not-found"

    def __init__(self, text: str, *, status: int = 404, date: datetime | None = None) -> None:
        super().__init__(text, status=status)
        self.date = date


class NotServed(ApiRefused):
    """The API server does not have objects of this kind.

    Args:
        what: Was asked for.
        api: Group and version of the objects.
        otherwise: What the answer says to a caller who knows that there are such objects, because it may come from a
            proxy that lost its way; ``None``: the words are the API server's own.
    """

    kind = "not-served"

    def __init__(self, what: str, api: str, *, otherwise: ApiError | None = None) -> None:
        super().__init__(f"{what}: the API server does not serve {api}", status=404)
        self.otherwise = otherwise


class Conflict(ApiError):
    """The object is no longer the one that was read, or exists already."""

    kind = "conflict"


class Expired(ApiError):
    """The version, or the next page of a list, is no longer there. Part of normal life."""

    kind = "expired"


class Malformed(ApiError):
    """The answer is none that an API server gives, or contradicts one before."""

    kind = "malformed"

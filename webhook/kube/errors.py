"""How a request to the API server can fail."""

from webhook.model.errors import GpuTopologyError


class ApiError(GpuTopologyError):
    """A request did not do what it should."""

    kind = "refused"


class ApiServerAway(ApiError):
    """The API server cannot be reached, is overloaded, or does not know us at the moment. Later it may work.

    Args:
        text: For the user.
        retry_after: Seconds for which the API server asked to be left alone; 0 if it did not say.
    """

    kind = "away"

    def __init__(self, text: str, *, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class AnswerTooLong(ApiServerAway):
    """The answer is longer than it may be."""


class ApiRefused(ApiError):
    """The API server understood the request and says no; the same request will fail again."""


class NotFound(ApiRefused):
    """The object does not exist."""

    kind = "not-found"


class Conflict(ApiError):
    """The object is no longer the one that was read, or exists already."""

    kind = "conflict"

"""The way to the API server. Whoever joins this package to one makes it."""

from typing import Protocol

from certs.requests import Answer, Request


class ApiServer(Protocol):
    """The API server, as the care of certificates asks it."""

    async def send(self, request: Request) -> Answer:
        """Make the request.

        Raises:
            Conflict: the object is no longer the one that was read, or exists already.
            ApiFailure: anything else that is no success, except that an object is not there for a :class:`Get`.
        """

    async def close(self) -> None:
        """Close the connections."""

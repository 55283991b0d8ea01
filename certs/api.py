"""The interface to the API server. A caller of this package supplies the implementation."""

from typing import Protocol

from certs.requests import Answer, Request


class ApiServer(Protocol):
    """The API server, as this package uses it."""

    async def send(self, request: Request) -> Answer:
        """Send the request.

        Raises:
            Conflict: the object is no longer the one that was read, or exists already.
            ApiFailure: the request failed in another way. A missing object is no failure of a :class:`Get`.
        """

    async def close(self) -> None:
        """Close the connections."""

"""Questions to the API server, one after the other, and what becomes of those that it does not answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from webhook.cli.complaint import complain
from webhook.kube.api_server import ApiServer, connect_objects
from webhook.kube.contexts import Where
from webhook.kube.errors import ApiRefused, NotFound
from webhook.model import names
from webhook.model.errors import GpuTopologyError
from webhook.printable import printable

NO_ANSWER = "the API server gave no answer"

_T = TypeVar("_T")


class Cluster:
    """The API server, for a command that does one thing after the other.

    Args:
        api: The connection.
        runner: Waits for its answers.
    """

    def __init__(self, api: ApiServer, runner: asyncio.Runner) -> None:
        self.api = api
        self._runner = runner

    def ask(self, answer: Awaitable[_T]) -> _T:
        """Wait for an answer.

        Raises:
            ApiError: it is no success.
        """

        async def wait() -> _T:
            return await answer

        return self._runner.run(wait())


@contextmanager
def opened(where: Where) -> Iterator[Cluster]:
    """The cluster, until the end of the block.

    Raises:
        GpuTopologyError: the kubeconfig cannot be used.
    """
    api = connect_objects(where, user_agent=names.EXPLAIN_USER_AGENT)
    with asyncio.Runner() as runner:
        try:
            yield Cluster(api, runner)
        finally:
            runner.run(api.close())


def attempt(ask: Callable[[], _T], otherwise: _T) -> tuple[_T, str]:
    """The answer, or ``otherwise`` and a note; and why the API server did not let the caller read it, if that is so."""
    try:
        return ask(), ""
    except GpuTopologyError as error:
        said = printable(str(error))
        complain(f"gpu-topology: left out: {said}")
        refused = isinstance(error, ApiRefused) and not isinstance(error, NotFound)
        return otherwise, said if refused else ""

"""The endpoints of the agent for probes and for Prometheus."""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from webhook import __version__
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.metrics import families
from webhook.programs.agent.status import Status
from webhook.programs.agent.traffic import Sampler
from webhook.programs.endpoints import Endpoints

STUCK_SECONDS = 300.0
"""The longest time that a round may take. A longer one waits in a driver that hangs; a new process may get through."""


def agent_endpoints(
    node: str,
    status: Callable[[], Status],
    clock: Callable[[], float],
    is_alive: Callable[[], bool],
    log: AgentLog,
    sampler: Sampler | None = None,
) -> Endpoints:
    """Returns the endpoints of one agent.

    Args:
        node: The name of the agent's node.
        status: Returns the status of the agent.
        clock: The clock of the status.
        is_alive: Returns whether the thread of the rounds runs.
        log: Receives the traceback of an answer that failed.
        sampler: The sampler of the cards' traffic, with the same clock; None if traffic is not sampled.
    """

    def illness() -> str:
        since = status().busy_since
        if not is_alive():
            return "no more rounds are made"
        if since is not None and clock() - since > STUCK_SECONDS:
            return f"a round takes longer than {STUCK_SECONDS:.0f} s"
        sampled_since = sampler.busy_since if sampler else None
        if sampled_since is not None and clock() - sampled_since > STUCK_SECONDS:
            return f"a sample of counters takes longer than {STUCK_SECONDS:.0f} s"
        return ""

    def all_families() -> Iterator[Metric]:
        sampled = sampler.sampled if sampler else None
        return families(status(), sampled, node=node, now=clock(), version=__version__)

    return Endpoints(
        all_families,
        illness=illness,
        failure=lambda: status().failure,
        bug=log.bug,
    )

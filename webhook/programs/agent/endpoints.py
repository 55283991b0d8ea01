"""What probes and Prometheus hear of the agent."""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from webhook import __version__
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.metrics import families
from webhook.programs.agent.status import Status
from webhook.programs.agent.traffic import Sampler
from webhook.programs.endpoints import Endpoints

STUCK_SECONDS = 300.0
"""A round that takes longer will not end: a call into a driver that hangs. A new process may get through."""


def agent_endpoints(
    node: str,
    status: Callable[[], Status],
    clock: Callable[[], float],
    is_alive: Callable[[], bool],
    log: AgentLog,
    sampler: Sampler | None = None,
) -> Endpoints:
    """Answers about one agent.

    Args:
        node: The name of its node.
        status: Says how the agent is doing.
        clock: The clock of the status.
        is_alive: Says whether rounds are being made.
        log: Takes what goes wrong in an answer.
        sampler: Samples the traffic of the cards, on the same clock; None: nothing does.
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

"""How the webhook is registered in a cluster, and whether its planner is alive."""

from datetime import UTC, datetime
from typing import NamedTuple

from webhook.cli.cluster.asking import NO_ANSWER, Cluster, attempt
from webhook.explain.standing import PlannerSigns, planner_signs
from webhook.kube.api_server import Object
from webhook.model import names
from webhook.state.registered import namespace_of


class Registered(NamedTuple):
    """The MutatingWebhookConfiguration of the webhook."""

    name: str
    found: Object | None
    """``None``: there is none, or it could not be read."""
    problem: str
    """Why it could not be read; empty if it could."""


def read_registered(cluster: Cluster, name: str) -> Registered:
    """The MutatingWebhookConfiguration of this name, if it may be read."""
    read, problem = attempt(lambda: (cluster.ask(cluster.api.mutating_webhooks(name)),), None)
    return Registered(name, read[0] if read else None, "" if read else problem or NO_ANSWER)


def read_planner(cluster: Cluster, registered: Registered) -> PlannerSigns:
    """Whether a planner is alive, by its Lease in the namespace of the webhook, which the registration names."""
    if registered.problem or registered.found is None:
        there_is_none = f"there is no MutatingWebhookConfiguration {registered.name}, which names its namespace"
        return PlannerSigns(problem=registered.problem or there_is_none)
    configuration = registered.found
    namespace, problem = attempt(lambda: namespace_of(configuration), "")
    if not namespace:
        by_url = f"MutatingWebhookConfiguration {registered.name} names no Service, and so no namespace"
        return PlannerSigns(problem=problem or by_url)
    read, problem = attempt(lambda: (cluster.ask(cluster.api.lease(namespace, names.PLANNER_LEASE)),), None)
    if read is None:
        return PlannerSigns(problem=problem or NO_ANSWER)
    return planner_signs(read[0], f"{namespace}/{names.PLANNER_LEASE}", at=datetime.now(UTC))

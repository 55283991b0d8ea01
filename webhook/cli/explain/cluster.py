"""A pod from a cluster, with everything around it that the caller is allowed to see."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec

from webhook.cli.cluster.asking import NO_ANSWER, Cluster, attempt, opened
from webhook.cli.cluster.claims import read_claims
from webhook.cli.cluster.facts import read_facts, read_namespace, read_schedulers
from webhook.cli.cluster.node import read_node
from webhook.cli.cluster.registered import Registered, read_planner, read_registered
from webhook.cli.cluster.wanted import Wanted
from webhook.cli.cluster.workloads import find_pod
from webhook.cli.explain.known import Known, read_pod
from webhook.explain.evidence import BindingReviews
from webhook.explain.standing import NO_SIGNS
from webhook.kube.contexts import Where
from webhook.manifest.pods import to_json
from webhook.model import names
from webhook.model.pod import Pod, PodSpec
from webhook.state.detected import scheduler_accounts
from webhook.state.registered import asked_about

_KUBE_SCHEDULER = "system:kube-scheduler"
"""The user as whom kube-scheduler binds: the built-in ClusterRoleBinding of that name is for this user."""
_NOT_READABLE = "what the API server sent is no MutatingWebhookConfiguration"


@contextmanager
def known_from_cluster(wanted: Wanted, where: Where, *, registration: str) -> Iterator[Known]:
    """The pod as it is now; the rest is asked for when it is needed, until the end of the block.

    What cannot be read besides the pod is left out, with a note on standard error.

    Args:
        wanted: The pod, or what makes it, with its namespace.
        where: Which cluster.
        registration: Name of the MutatingWebhookConfiguration that registers the webhook.

    Raises:
        GpuTopologyError: there is no such pod, or the API server cannot be asked.
    """
    with opened(where) as cluster:
        yield _known(cluster, wanted, registration)


def _known(cluster: Cluster, wanted: Wanted, registration: str) -> Known:
    namespace, found = wanted.namespace, find_pod(cluster, wanted)
    source = f"{wanted.kind.word} {namespace}/{wanted.name}"
    document = to_json(found, source)
    pod = read_pod(document, source)
    around, problem = read_namespace(cluster, namespace)
    schedulers, not_listed = read_schedulers(cluster)
    # Of a pod that has a node its own status and annotations tell whether claims served it.
    is_bound = pod.spec is not None and bool(pod.spec.node_name)
    facts = read_facts(cluster, schedulers, with_claims=not is_bound)
    registered = read_registered(cluster, registration)
    planner = read_planner(cluster, registered) if _may_wait(pod) else NO_SIGNS
    return Known(
        document=document,
        pod=pod,
        namespace=around,
        cluster=msgspec.structs.replace(facts, has_planner=planner.is_alive is True),
        group=lambda group: _group(cluster, pod, group),
        node=lambda node: read_node(cluster, node),
        claims=lambda settings, node: read_claims(cluster, pod, namespace, settings, node),
        namespace_problem=problem,
        reviews=_reviews(registered, pod, schedulers, not_listed),
        planner=planner,
        asked_at=datetime.now(UTC),
    )


def _reviews(registered: Registered, pod: Pod, schedulers: bytes | None, not_listed: str) -> BindingReviews:
    """Whether the API server asks the webhook about the Bindings of whoever schedules the pod.

    Those are the Deployments of HAMi's schedulers, and for a pod that gets its devices by claims kube-scheduler.
    """
    registration, found, unread = registered
    accounts: tuple[str, ...] | None = (_KUBE_SCHEDULER,)
    if _is_of_kube_scheduler(pod):
        not_listed = ""
    else:
        accounts, _ = attempt(lambda: tuple(scheduler_accounts(schedulers)) if schedulers else None, None)
    if accounts is None or unread:
        said = "; ".join(filter(None, (not_listed, unread))) or NO_ANSWER
        return BindingReviews(configuration=registration, problem=said)
    if found is None:
        return BindingReviews(configuration=registration, is_registered=False)
    about, problem = attempt(lambda: asked_about(found, accounts), None)
    if about is None:
        return BindingReviews(configuration=registration, problem=problem or _NOT_READABLE)
    return BindingReviews(
        configuration=registration, asked=about.asked, passed_by=about.passed_by, unclear=about.unclear
    )


def _is_of_kube_scheduler(pod: Pod) -> bool:
    spec = pod.spec or PodSpec()
    return pod.has_claims and spec.scheduler_name in (None, "", names.DEFAULT_SCHEDULER)


def _may_wait(pod: Pod) -> bool:
    """Whether it matters to the pod that a planner is alive: it has no node, and the webhook has prepared it."""
    spec = pod.spec or PodSpec()
    is_ours = names.INJECTED in pod.annotations or names.PLACEMENT in pod.labels
    return not spec.node_name and (is_ours or names.PLACE_GATE in spec.scheduling_gates)


def _group(cluster: Cluster, pod: Pod, group: str) -> tuple[tuple[Pod, ...] | None, str]:
    namespace = (pod.metadata.namespace if pod.metadata else None) or ""
    found, problem = attempt(lambda: cluster.ask(cluster.api.pods(namespace, label=f"{names.GROUP}={group}")), None)
    if found is None:
        return None, problem
    source = f"a pod of group {group}"
    pods = [read_pod(to_json(document, source), source) for document in found]
    return tuple(other for other in pods if other.display_name != pod.display_name), ""

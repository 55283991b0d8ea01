"""What a cluster tells of itself: its namespaces, and versions."""

import msgspec

from webhook.cli.cluster.asking import NO_ANSWER, Cluster, attempt
from webhook.manifest.pods import to_json
from webhook.model.cluster import ClusterFacts
from webhook.model.pod import Namespace
from webhook.model.version import Version
from webhook.state.detected import claimed_resources, hami_version, scheduler_accounts


def read_namespace(cluster: Cluster, name: str) -> tuple[Namespace, str]:
    """The namespace; one that is not known where it may not be read, and why."""
    found, problem = attempt(lambda: cluster.ask(cluster.api.namespace(name)), None)
    if found is None:
        return Namespace(name, known=False), problem
    metadata = found.get("metadata") or {}
    return Namespace(name, metadata.get("labels") or {}, metadata.get("annotations") or {}), ""


def read_schedulers(cluster: Cluster) -> tuple[bytes | None, str]:
    """The Deployments of HAMi's schedulers, as a list in JSON; or ``None``, and why."""
    found, problem = attempt(lambda: cluster.ask(cluster.api.hami_schedulers()), None)
    if found is None:
        return None, problem or NO_ANSWER
    return msgspec.json.encode({"items": found}), ""


def read_facts(cluster: Cluster, schedulers: bytes | None, *, with_claims: bool) -> ClusterFacts:
    """The versions of Kubernetes and HAMi, as far as the cluster tells them.

    Args:
        cluster: The API server.
        schedulers: What :func:`read_schedulers` found.
        with_claims: Whether it is asked too which resources claims serve.
    """
    source = "the version of the API server"
    kubernetes, _ = attempt(lambda: Version.parse(cluster.ask(cluster.api.version()), source=source), None)
    hami, _ = attempt(lambda: _hami(schedulers), None)
    if not with_claims:
        return ClusterFacts(hami=hami, kubernetes=kubernetes)
    found, _ = attempt(lambda: claimed_resources(to_json({"items": cluster.ask(cluster.api.device_classes())})), None)
    claimed, has_hami_dra = found or (None, False)
    return ClusterFacts(hami=hami, kubernetes=kubernetes, claimed=claimed, has_hami_dra=has_hami_dra)


def _hami(schedulers: bytes | None) -> Version | None:
    """HAMi's version; ``None`` where its Deployments are not there, or not known.

    Raises:
        FormatError: they do not tell it.
    """
    return hami_version(schedulers) if schedulers is not None and scheduler_accounts(schedulers) else None

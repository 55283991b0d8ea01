"""The dependence of a decision on unknown versions."""

from collections.abc import Mapping
from itertools import product

import msgspec

from webhook.decisions.admit.admission import admit
from webhook.decisions.admit.steps import STEPS
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.objects.claims import ClaimSpec
from webhook.objects.pod import Namespace, Pod
from webhook.words.outcome import Kind, Outcome
from webhook.words.version import Version

_HAMI = (Version(2, 6), Version(2, 8), Version(2, 9), Version(2, 10, 0), Version(2, 10, 1))
"""One version of each group that webhook/decisions/cluster_facts.py distinguishes."""
_KUBERNETES = (Version(1, 28), Version(1, 30), Version(1, 35))
WARNINGS, REFUSALS = "warnings", "refusals"
_PURPOSES = {step.name: f"{step.purpose} ({step.name})" for step in STEPS}
_OTHERS = {WARNINGS: "warn of something else", REFUSALS: "refuse a pod that it takes here, or take one that it refuses"}


def unknown_versions(facts: ClusterFacts) -> list[str]:
    """Return the names of the programs whose versions are not known."""
    return [name for name, version in (("HAMi", facts.hami), ("Kubernetes", facts.kubernetes)) if version is None]


def depends_on_versions(
    pod: Pod,
    namespace: Namespace,
    policy: AdmitPolicy,
    cluster: ClusterFacts,
    outcome: Outcome,
    claim_specs: Mapping[str, ClaimSpec | None],
) -> frozenset[str]:
    """Return the steps that other versions would add or drop; also :data:`WARNINGS` and :data:`REFUSALS`.

    Args:
        pod: The pod as it is created.
        namespace: The namespace of the pod.
        policy: The configuration; versions that it names overrule those of the cluster.
        cluster: The known facts about the cluster, perhaps with versions.
        outcome: The outcome with these facts.
        claim_specs: The requests of the pod's resource claims.
    """
    known = cluster.overruled_by(policy.versions)
    if outcome.kind is Kind.SKIP or not unknown_versions(known):
        return frozenset()
    versions_of_hami = _HAMI if known.hami is None else (known.hami,)
    versions_of_kubernetes = _KUBERNETES if known.kubernetes is None else (known.kubernetes,)
    found: set[str] = set()
    for hami, kubernetes in product(versions_of_hami, versions_of_kubernetes):
        facts = msgspec.structs.replace(known, hami=hami, kubernetes=kubernetes)
        elsewhere = admit(pod, namespace, policy, facts, claim_specs=claim_specs, trace=True)
        found |= _difference(outcome, elsewhere)
    return frozenset(found)


def version_note(unknown: list[str], differences: frozenset[str]) -> str:
    """Return one sentence about the differences; empty if nothing depends on versions."""
    if not unknown or not differences:
        return ""
    texts = _PURPOSES | _OTHERS
    told = ", or would ".join(text for name, text in texts.items() if name in differences)
    options = " and ".join(f"--{name.lower()}-version" for name in unknown)
    whose = f"version of {unknown[0]} is" if len(unknown) == 1 else f"versions of {' and '.join(unknown)} are"
    return (
        f"note: the {whose} not known here, and some of the result depends on that: whether the webhook would {told}. "
        f"Give {options}, or a state directory that says it (--state)"
    )


def _difference(outcome: Outcome, elsewhere: Outcome) -> set[str]:
    if outcome.allowed != elsewhere.allowed:
        return {REFUSALS}
    found = set(outcome.steps) ^ set(elsewhere.steps)
    return found or ({WARNINGS} if outcome.warnings != elsewhere.warnings else set())

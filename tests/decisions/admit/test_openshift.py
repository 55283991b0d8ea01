"""Namespaces that give pods their users, as in OpenShift: the remap container names none, and keeps the given one."""

import copy
from typing import Any

import pytest

from tests.judge import HAMI_2_9, HAMI_2_10_0, TEAM_A, judge
from tests.pods import Manifest, container, find_container, pod
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.objects.pod import Namespace
from webhook.words import names
from webhook.words.outcome import Kind

OPENSHIFT = Namespace(
    TEAM_A.name, TEAM_A.labels, TEAM_A.annotations | {"openshift.io/sa.scc.uid-range": "1000680000/10000"}
)
CARRIERS = pytest.mark.parametrize("cluster", [HAMI_2_9, HAMI_2_10_0], ids=["init", "sidecar"])


def injected(namespace: Namespace, cluster: ClusterFacts) -> Manifest:
    outcome, after = judge(pod(container()), namespace, cluster)
    assert outcome.kind is Kind.PATCH
    return after


def remap(manifest: Manifest) -> Manifest:
    return find_container(manifest, names.REMAP_CONTAINER)


def with_context(manifest: Manifest, **fields: Any) -> Manifest:
    """The pod with these fields in the security context of the remap container."""
    changed = copy.deepcopy(manifest)
    remap(changed)["securityContext"] |= fields
    return changed


@CARRIERS
def test_the_user_that_openshift_wrote_stays_at_the_second_look(cluster: ClusterFacts) -> None:
    """OpenShift writes it after our first look and only judges after our second one: without it, it refuses the pod."""
    seen = with_context(injected(OPENSHIFT, cluster), runAsUser=1000680000)
    outcome, after = judge(seen, OPENSHIFT, cluster)
    assert (outcome.operations, after) == ([], seen)


@CARRIERS
@pytest.mark.parametrize(
    "fields",
    [
        {"runAsUser": 0},
        {"runAsUser": -1},
        {"runAsUser": None},
        {"runAsUser": 1000680000, "runAsNonRoot": False},
        {"runAsUser": 1000680000, "runAsGroup": 0},
        {"runAsUser": 1000680000, "privileged": True},
        {"runAsUser": 1000680000, "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]}},
    ],
    ids=str,
)
def test_whatever_else_is_in_its_security_context_is_taken_out(fields: dict[str, Any], cluster: ClusterFacts) -> None:
    clean = injected(OPENSHIFT, cluster)
    _, after = judge(with_context(clean, **fields), OPENSHIFT, cluster)
    assert remap(after)["securityContext"] == remap(clean)["securityContext"]


@CARRIERS
def test_where_the_namespace_gives_no_user_another_one_than_ours_is_replaced(cluster: ClusterFacts) -> None:
    clean = injected(TEAM_A, cluster)
    _, after = judge(with_context(clean, runAsUser=1000680000), TEAM_A, cluster)
    assert remap(after)["securityContext"]["runAsUser"] == 65532

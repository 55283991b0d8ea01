"""Options of a pod that is left alone: each is told with the reason; a requirement with ``deny`` refuses the pod."""

from typing import Any

import pytest

from tests.judge import HAMI_2_9, TEAM_A, judge, policy
from tests.pods import Manifest, container, pod, team_a
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.objects.pod import Namespace
from webhook.words.outcome import Kind, Reason

SLICE = container(resources={"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}})
ONE, NONE = container(gpus=1), container(gpus=None)
MIG = container(gpus=None, resources={"limits": {"nvidia.com/mig-1g.10gb": 2}})
TOLD = ("GT176", "GT177")
DENY = {"on-violation": "deny"}
OF_A_SLICE = "the pod asks for a vGPU slice and not for whole cards"
NOT_ASKED = "the pod did not request injection, and no default enables it"


def asking(found: Manifest, **options: str) -> Manifest:
    return pod(found, annotations={f"gpu.topology/{name.replace('_', '-')}": text for name, text in options.items()})


def told(manifest: Manifest, namespace: Namespace = TEAM_A, **settings: Any) -> list[str]:
    outcome, _ = judge(manifest, namespace, HAMI_2_9, policy(**settings))
    assert outcome.allowed, outcome.message
    return [warning for warning in outcome.warnings if warning.startswith(TOLD)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"require_nvlink": "true"}, [f"GT176: gpu.topology/require-nvlink is not kept: {OF_A_SLICE}"]),
        ({"min_bandwidth": "100"}, [f"GT176: gpu.topology/min-bandwidth is not kept: {OF_A_SLICE}"]),
        ({"policy": "single-numa"}, [f"GT176: gpu.topology/policy is not kept: {OF_A_SLICE}"]),
        ({"policy": "spread"}, [f"GT177: options without effect: policy; {OF_A_SLICE}"]),
        ({"multi-node-policy": "pack"}, [f"GT177: options without effect: multi-node-policy; {OF_A_SLICE}"]),
        ({"group_size": "4"}, [f"GT176: gpu.topology/group-size is not kept: {OF_A_SLICE}"]),
        ({"min_bandwidth": "fast"}, [f"GT176: gpu.topology/min-bandwidth is not kept: {OF_A_SLICE}"]),
        ({"shm_size": "1Gi", "env.A": "1"}, [f"GT177: options without effect: shm-size, env.A; {OF_A_SLICE}"]),
        ({"require_nvlink": "false", "policy": "best-effort", "group_size": "1", "expect_nvlink": "false"}, []),
        ({"on_violation": "deny"}, []),
    ],
)
def test_a_slice_is_told_which_of_its_options_are_not_kept(options: dict[str, str], expected: list[str]) -> None:
    assert told(asking(SLICE, **options)) == expected


def test_many_options_without_effect_are_counted() -> None:
    found = told(asking(SLICE, **{f"env.V{index}": "1" for index in range(7)}))
    assert found == [f"GT177: options without effect: env.V0, env.V1, env.V2 and 4 more; {OF_A_SLICE}"]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (SLICE, OF_A_SLICE),
        (ONE, NOT_ASKED),
        (NONE, "no container asks for a GPU"),
        (MIG, "the pod asks for MIG devices, which have no NVLink"),
    ],
    ids=["slice", "one card", "no card", "MIG"],
)
def test_a_requirement_is_told_and_with_deny_refused(asked: Manifest, why: str) -> None:
    assert told(asking(asked, require_nvlink="true")) == [f"GT176: gpu.topology/require-nvlink is not kept: {why}"]
    outcome, _ = judge(asking(asked, require_nvlink="true", on_violation="deny"))
    assert (outcome.kind, outcome.reason) == (Kind.REFUSE, Reason.REQUIREMENT_NOT_KEPT)
    required = "pod team-a/train requires gpu.topology/require-nvlink, which would not be kept"
    assert outcome.message.startswith(f"GT179: {required}: {why}. Leave the requirement out")


def test_the_refusal_names_the_way_out() -> None:
    outcome, _ = judge(asking(SLICE, require_nvlink="true", min_bandwidth="100", on_violation="deny"))
    assert outcome.message == (
        "GT179: pod team-a/train requires gpu.topology/require-nvlink, gpu.topology/min-bandwidth, which would not be "
        "kept: the pod asks for a vGPU slice and not for whole cards. Leave the requirement out, or set "
        'gpu.topology/on-violation: warn. To have it kept: Set gpu.topology/inject: "true" on the pod if it needs '
        "NVLink; it then gets, and is accounted for, whole cards"
    )


def test_the_way_out_leads_out() -> None:
    outcome, _ = judge(asking(SLICE, require_nvlink="true", on_violation="deny", inject="true"))
    assert (outcome.kind, outcome.reason) == (Kind.PATCH, Reason.INJECTED)


def test_deny_of_the_namespace_counts_and_warn_of_the_pod_overrules_it() -> None:
    denying = team_a({"gpu.topology/on-violation": "deny"})
    assert not judge(asking(SLICE, require_nvlink="true"), denying)[0].allowed
    assert len(told(asking(SLICE, require_nvlink="true", on_violation="warn"), denying)) == 1


def test_deny_of_the_configuration_counts() -> None:
    rules = policy(defaults={"on-violation": "deny"})
    assert not judge(asking(SLICE, require_nvlink="true"), TEAM_A, HAMI_2_9, rules)[0].allowed


def test_a_requirement_of_the_namespace_is_for_pods_that_are_injected() -> None:
    demanding = team_a({"gpu.topology/require-nvlink": "true", "gpu.topology/on-violation": "deny"})
    assert told(pod(SLICE), demanding) == []


def test_a_preference_with_deny_refuses_no_pod() -> None:
    assert len(told(asking(SLICE, shm_size="1Gi", on_violation="deny"))) == 1


@pytest.mark.parametrize("namespace", [Namespace("team-a", {}), Namespace("team-a", known=False)])
def test_where_no_webhook_is_asked_nothing_is_refused(namespace: Namespace) -> None:
    assert len(told(asking(ONE, require_nvlink="true", on_violation="deny"), namespace)) == 1


@pytest.mark.parametrize("options", [{"inject": "false"}, {"profile": "observe"}])
def test_who_opts_out_or_only_observes_is_told_and_not_refused(options: dict[str, str]) -> None:
    assert len(told(asking(container(), require_nvlink="true", on_violation="deny", **options))) == 1


def test_a_pod_that_is_injected_is_not_told() -> None:
    assert told(asking(container(), require_nvlink="true", on_violation="deny", shm_size="1Gi")) == []


NOT_HAMI = {"schedulerName": "my-scheduler"}


def elsewhere(cluster: ClusterFacts = HAMI_2_9, spec: Manifest = NOT_HAMI, **options: str) -> Any:
    manifest = asking(container(), **options)
    manifest["spec"] |= spec
    return judge(manifest, TEAM_A, cluster)[0]


def test_a_pod_of_another_scheduler_is_told_that_its_requirement_is_not_kept() -> None:
    found = elsewhere(require_nvlink="true")
    assert "GT176: gpu.topology/require-nvlink is not kept: HAMi leaves the pod alone" in found.warnings
    assert (found.kind, found.reason) == (Kind.PATCH, Reason.INJECTED)


@pytest.mark.parametrize("spec", [{"nodeName": "n1"}, {"runtimeClassName": "kata"}])
def test_with_deny_it_is_refused(spec: Manifest) -> None:
    assert elsewhere(spec=spec, require_nvlink="true", on_violation="deny").reason is Reason.REQUIREMENT_NOT_KEPT
    assert elsewhere(spec=spec, on_violation="deny").allowed
    assert elsewhere(spec={}, require_nvlink="true", on_violation="deny").allowed


@pytest.mark.parametrize("cluster", [HAMI_2_9, ClusterFacts()], ids=["HAMi 2.9", "HAMi not known"])
def test_another_scheduler_may_keep_it_with_our_extender_so_nothing_is_refused(cluster: ClusterFacts) -> None:
    found = elsewhere(cluster, require_nvlink="true", on_violation="deny")
    assert (found.kind, found.reason) == (Kind.PATCH, Reason.INJECTED)

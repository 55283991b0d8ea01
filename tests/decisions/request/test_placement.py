"""Which pods wait for the planner, and why others do not: each cause beside its opposite."""

from typing import Any

import msgspec
import pytest

from tests.judge import HAMI_2_9, TEAM_A, judge, policy
from tests.pods import container, pod
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import resolve_options
from webhook.decisions.request.placement import Hindrance, PodToPlace, not_waiting, unplaced
from webhook.decisions.request.resources import read_requests
from webhook.objects.pod import Namespace, Pod
from webhook.words.version import Version

ON = policy(placement={"mode": "on"})
ALIVE = msgspec.structs.replace(HAMI_2_9, has_planner=True)
HAMI = "hami-scheduler"


def hindrance(
    manifest: dict[str, Any],
    *,
    namespace: Namespace = TEAM_A,
    rules: AdmitPolicy = ON,
    cluster: ClusterFacts = ALIVE,
    is_admitted: bool = False,
) -> str | None:
    found = msgspec.json.decode(msgspec.json.encode(manifest), type=Pod)
    options = resolve_options(rules.defaults, found, namespace)
    requests = read_requests(found, rules.resources, rules.default_count)
    result = unplaced(
        PodToPlace(
            pod=found,
            options=options,
            profile=options.profile,
            requests=requests,
            namespace=namespace,
            policy=rules,
            cluster=cluster,
            is_admitted=is_admitted,
        )
    )
    return result.hindrance if result else None


def node_terms(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def owned_by(kind: str) -> dict[str, Any]:
    manifest = pod()
    manifest["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "u"}]
    return manifest


SLICE = container("decode", None, resources={"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}})
VOLCANO = container(gpus=None, resources={"limits": {"volcano.sh/vgpu-number": 2}})
CLAIMING = container(resources={"limits": {"nvidia.com/gpu": 2}, "claims": [{"name": "channel"}]})
MATCHING = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}
USING, SHUNNING = {"nvidia.com/use-gpuuuid": ""}, {"nvidia.com/nouse-gpuuuid": "GPU-1"}

PODS: dict[str, tuple[dict[str, Any], str | None]] = {
    "two cards": (pod(), None),
    "one card": (pod(container(gpus=1)), None),
    "several containers": (pod(container(), container("decode", 1)), None),
    "selectors and volumes": (pod(nodeSelector={"pool": "a"}, volumes=[{"name": "data", "hostPath": {}}]), None),
    "types and NUMA nodes": (pod(annotations={"nvidia.com/use-gputype": "A100", "nvidia.com/numa-bind": "true"}), None),
    "off": (pod(annotations={"gpu.topology/place": "off"}), "off"),
    "auto": (pod(annotations={"gpu.topology/place": "auto"}), None),
    "only observed": (pod(annotations={"gpu.topology/profile": "observe"}), "observed"),
    "static": (pod(annotations={"kubernetes.io/config.mirror": "x"}), "static"),
    "of a DaemonSet": (owned_by("DaemonSet"), "daemonset"),
    "of a Job": (owned_by("Job"), None),
    "another family": (pod(VOLCANO), "other-family"),
    "no GPU": (pod(container(gpus=None)), "other-family"),
    "allocated": (pod(annotations={"hami.io/vgpu-node": "n1"}), "allocated"),
    "a node of its own": (pod(nodeName="n1"), "node-preset"),
    "another scheduler": (pod(schedulerName="volcano"), "other-scheduler"),
    "the default scheduler, which HAMi replaces": (pod(schedulerName="default-scheduler"), None),
    "hidden from HAMi's webhook": (pod(labels={"hami.io/webhook": "ignore"}), "hami-webhook-ignored"),
    "hidden, but given to its scheduler": (pod(labels={"hami.io/webhook": "ignore"}, schedulerName=HAMI), None),
    "a virtual machine": (pod(runtimeClassName="kata"), None),
    "a list of cards": (pod(annotations=USING), "own-list"),
    "a list of cards to avoid": (pod(annotations=SHUNNING), "own-list"),
    "a slice that is left out": (pod(container(), SLICE, annotations={"gpu.topology/containers": "train"}), "slices"),
    "a slice that becomes a card": (pod(container(), SLICE), None),
    "MIG devices": (pod(annotations={"nvidia.com/vgpu-mode": "mig"}), "slices"),
    "an init container with GPUs": (pod(initContainers=[container("setup", 1)]), "init-gpus"),
    "a sidecar with GPUs": (pod(initContainers=[container("s", 1, restartPolicy="Always")]), "init-gpus"),
    "an init container without": (pod(initContainers=[container("setup", None)]), None),
    "a claim": (pod(CLAIMING, resourceClaims=[{"name": "channel"}]), "claims"),
    "a claim that no container has": (pod(resourceClaims=[{"name": "channel"}]), None),
    "an empty term": (pod(affinity=node_terms(MATCHING, {})), "empty-affinity-term"),
    "a term of nothing": (
        pod(affinity=node_terms({"matchExpressions": [], "matchFields": None})),
        "empty-affinity-term",
    ),
    "no term at all": (pod(affinity=node_terms(None)), "empty-affinity-term"),
    "terms": (pod(affinity=node_terms(MATCHING, {"matchFields": MATCHING["matchExpressions"]})), None),
    "preferences only": (pod(affinity={"nodeAffinity": {}, "podAffinity": None}), None),
}


@pytest.mark.parametrize(("manifest", "found"), PODS.values(), ids=PODS)
def test_the_planner_chooses_the_cards_of_these_pods_and_of_no_others(
    manifest: dict[str, Any], found: str | None
) -> None:
    assert hindrance(manifest) == found


def test_every_hindrance_has_an_example() -> None:
    told = {found for _, found in PODS.values() if found}
    assert told == set(Hindrance) - {Hindrance.OBSERVES, Hindrance.NOT_REQUESTED, Hindrance.NO_PLANNER}


def test_the_namespace_may_say_it_for_all_its_pods() -> None:
    namespace = Namespace("team-a", TEAM_A.labels, {"gpu.topology/place": "off"})
    assert hindrance(pod(), namespace=namespace) == "off"
    assert hindrance(pod(annotations={"gpu.topology/place": "auto"}), namespace=namespace) is None


@pytest.mark.parametrize(("version", "found"), [(Version(2, 6), None), (Version(2, 7), "other-scheduler")])
def test_before_2_7_hami_overwrites_the_name_of_the_scheduler(version: Version, found: str | None) -> None:
    cluster = msgspec.structs.replace(ALIVE, hami=version)
    assert hindrance(pod(schedulerName="my-scheduler"), cluster=cluster) == found
    assert hindrance(pod(schedulerName="my-scheduler"), cluster=cluster, is_admitted=True) == "other-scheduler"


@pytest.mark.parametrize(("scheduler", "found"), [(HAMI, None), ("default-scheduler", "other-scheduler")])
def test_a_pod_that_hamis_webhook_has_missed_is_not_scheduled_by_hami(scheduler: str, found: str | None) -> None:
    assert hindrance(pod(schedulerName=scheduler), is_admitted=True) == found


def test_after_admission_nothing_turns_a_slice_into_a_card() -> None:
    assert hindrance(pod(container(), SLICE, schedulerName=HAMI), is_admitted=True) == "slices"


def test_cards_that_resource_claims_serve_are_not_hamis() -> None:
    claimed = msgspec.structs.replace(ALIVE, claimed=frozenset({"nvidia.com/gpu"}))
    other = msgspec.structs.replace(ALIVE, claimed=frozenset({"example.com/gpu"}))
    assert hindrance(pod(), cluster=claimed) == "claims"
    assert hindrance(pod(), cluster=other) is None


@pytest.mark.parametrize(
    ("mode", "has_planner", "found"),
    [
        ("on", True, None),
        ("on", False, "no-planner"),
        ("on-request", True, None),
        ("on-request", False, "no-planner"),
        ("observe", True, "observes"),
        ("off", True, "off"),
        ("off", False, "off"),
    ],
)
def test_pods_wait_only_where_placement_is_on_and_a_planner_lives(
    mode: str, has_planner: bool, found: str | None
) -> None:
    cluster = msgspec.structs.replace(HAMI_2_9, has_planner=has_planner)
    result = not_waiting(policy(placement={"mode": mode}), cluster)
    assert (result.hindrance if result else None) == found


ASKING = {
    "gpu.topology/require-nvlink": ("true", "false"),
    "gpu.topology/min-bandwidth": ("100", None),
    "gpu.topology/policy": ("nvlink", "best-effort"),
    "gpu.topology/group": ("team-job", None),
    "gpu.topology/place-wait": ("30s", "0s"),
}


@pytest.mark.parametrize(("key", "values"), ASKING.items(), ids=ASKING)
def test_on_request_only_pods_wait_that_ask_for_something_of_their_cards(
    key: str, values: tuple[str, str | None]
) -> None:
    on_request, (wish, nothing) = policy(placement={"mode": "on-request"}), values
    assert hindrance(pod(annotations={key: wish}), rules=on_request) is None
    assert hindrance(pod(annotations={key: nothing} if nothing else {}), rules=on_request) == "not-requested"
    assert hindrance(pod(annotations={key: nothing} if nothing else {}), rules=ON) is None
    namespace = Namespace("team-a", TEAM_A.labels, {key: wish})
    assert hindrance(pod(), namespace=namespace, rules=on_request) is None
    assert hindrance(pod(annotations={key: wish, "gpu.topology/place": "off"}), rules=on_request) == "off"


WISHES = {
    "gpu.topology/group-size": ("4", "1"),
    "gpu.topology/place-wait": ("30s", "0s"),
    "gpu.topology/max-nodes": ("2", None),
    "gpu.topology/min-gpus-per-node": ("4", "1"),
    "gpu.topology/min-network-bandwidth": ("50", None),
    "gpu.topology/node-policy": ("pack", "best-fit"),
}


@pytest.mark.parametrize(("key", "values"), WISHES.items(), ids=WISHES)
def test_a_wish_that_only_the_planner_could_grant_is_answered_where_it_does_not(
    key: str, values: tuple[str, str | None]
) -> None:
    wish, nothing = values
    for rules, cluster, is_answered in ((ON, ALIVE, False), (ON, HAMI_2_9, True), (policy(), ALIVE, True)):
        warnings = judge(pod(annotations={key: wish}), cluster=cluster, rules=rules)[0].warnings
        assert [warning for warning in warnings if key in warning and "has no effect" in warning] == (
            [warning for warning in warnings if warning.startswith("GT617")]
        )
        assert any(warning.startswith("GT617") for warning in warnings) is is_answered
    if nothing is not None:
        warnings = judge(pod(annotations={key: nothing}), cluster=HAMI_2_9, rules=ON)[0].warnings
        assert not any(warning.startswith("GT617") for warning in warnings)


def test_a_pod_with_several_wishes_is_warned_of_each() -> None:
    warnings = judge(pod(annotations={key: wish for key, (wish, _) in WISHES.items()}))[0].warnings
    assert sum(warning.startswith("GT617") for warning in warnings) == len(WISHES)


@pytest.mark.parametrize("key", ["gpu.topology/multi-node-policy", "gpu.topology/policy"])
def test_a_policy_for_nodes_is_answered_under_the_name_by_which_the_pod_asks_for_it(key: str) -> None:
    warnings = judge(pod(annotations={key: "pack"}), cluster=HAMI_2_9, rules=ON)[0].warnings
    assert [warning.split()[1] for warning in warnings if warning.startswith("GT617")] == [key]


def test_a_wish_of_the_namespace_is_no_wish_of_the_pod() -> None:
    namespace = Namespace("team-a", TEAM_A.labels, {"gpu.topology/place-wait": "30s"})
    assert not any(warning.startswith("GT617") for warning in judge(pod(), namespace)[0].warnings)

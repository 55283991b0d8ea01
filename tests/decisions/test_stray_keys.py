"""Keys that look like ours and have no effect are told, with what was meant; keys of others are left in peace."""

import pytest

from tests.judge import judge
from tests.pods import Manifest, container, pod
from webhook.decisions.stray_keys import stray_keys, stray_keys_of_namespace
from webhook.objects.pod import Metadata, Namespace, Pod
from webhook.words.outcome import Kind, Reason

LABEL = "GT168: the label gpu.topology/profile has no effect: gpu.topology/profile is read as an annotation only"


def of_pod(*, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> list[str]:
    found = Pod(metadata=Metadata(name="train", annotations=annotations or {}, labels=labels or {}))
    return list(map(str, stray_keys(found)))


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("gpu.topology-profile", "annotation gpu.topology/profile"),
        ("gpu-topology/profile", "annotation gpu.topology/profile"),
        ("gpu.topology.io/profile", "annotation gpu.topology/profile"),
        ("gpu.toplogy/min-bandwidth", "annotation gpu.topology/min-bandwidth"),
        ("gpu_topology/shm_size", "annotation gpu.topology/shm-size"),
        ("gpu.topology-injection", "label gpu.topology/injection"),
    ],
)
def test_a_key_like_ours_is_told_with_the_one_that_was_meant(key: str, meant: str) -> None:
    assert of_pod(annotations={key: "1"}) == [
        f"GT170: the annotation {key} has no effect here; did you mean the {meant}?"
    ]
    assert of_pod(labels={key: "1"}) == [f"GT170: the label {key} has no effect here; did you mean the {meant}?"]


@pytest.mark.parametrize(
    "key",
    [
        "gpu",
        "gpu.topology",
        "gpu.topology.example.com/rack-of-the-node",
        "gpu-operator.nvidia.com/profile",
        "gpu.nvidia.com/profile",
        "app.kubernetes.io/name",
        "my-gpu.topology/profile",
        f"gpu.topology-profile{'x' * 1_000_000}",
    ],
)
def test_a_key_of_others_is_not_told(key: str) -> None:
    assert of_pod(annotations={key: "1"}, labels={key: "1"}) == []


def test_an_option_as_a_label_is_told_and_our_own_labels_are_not() -> None:
    assert of_pod(labels={"gpu.topology/profile": "node-peers"}) == [LABEL]
    ours = {"gpu.topology/group": "a", "gpu.topology/injection": "disabled", "gpu.topology/placement": "waiting"}
    assert of_pod(labels=ours) == []
    assert of_pod(labels={"gpu.topology/grupo": "a"}) == [
        "GT170: the label gpu.topology/grupo has no effect here; did you mean the label gpu.topology/group?"
    ]


def test_the_group_is_an_annotation_and_a_label_and_stays_what_it_is() -> None:
    said = "gpu.topology-group has no effect here; did you mean the"
    assert of_pod(annotations={"gpu.topology-group": "a"}) == [
        f"GT170: the annotation {said} annotation gpu.topology/group?"
    ]
    assert of_pod(labels={"gpu.topology-group": "a"}) == [f"GT170: the label {said} label gpu.topology/group?"]


def test_of_many_keys_the_first_ten_are_compared() -> None:
    many = {f"gpu.topology-profile{number}": "1" for number in range(40)}
    assert len(of_pod(annotations=many)) == 10


def test_the_annotations_of_a_namespace_are_judged_by_what_namespaces_can_say() -> None:
    good = {"gpu.topology/profile": "observe", "gpu.topology/env.NCCL_DEBUG": "INFO", "gpu.topology/link": "NVLink"}
    labels = {"gpu.topology/injection": "enabled", "gpu.topology/allow-host-ipc": "true"}
    assert list(stray_keys_of_namespace(Namespace("a", labels, good))) == []
    bad = {"gpu.topology/injection": "enabled", "gpu.topology/profil": "observe"}
    found = stray_keys_of_namespace(Namespace("a", {"gpu.topology/profile": "observe"}, bad))
    assert list(map(str, found)) == [
        LABEL,
        "GT169: the annotation gpu.topology/injection has no effect: gpu.topology/injection is read as a label only",
        "GT118: unknown annotation gpu.topology/profil; did you mean gpu.topology/profile?",
    ]


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (pod(labels={"gpu.topology/profile": "exclusive"}), Reason.INJECTED),
        (pod(container(gpus=1), labels={"gpu.topology/profile": "pod-peers"}), Reason.NOT_REQUESTED),
    ],
)
def test_admission_warns_also_where_it_leaves_the_pod_alone_for_that_reason(manifest: Manifest, reason: Reason) -> None:
    outcome, _ = judge(manifest)
    assert outcome.reason == reason
    assert any(text.startswith("GT168: the label gpu.topology/profile has no effect") for text in outcome.warnings)


def test_admission_says_nothing_of_a_pod_without_such_keys() -> None:
    outcome, _ = judge(pod(container(gpus=1), labels={"app": "gpu"}))
    assert outcome.warnings[0].startswith("GT166: ")
    assert (outcome.kind, outcome.reason, len(outcome.warnings)) == (Kind.SKIP, Reason.NOT_REQUESTED, 1)


GPUS, NODES = "hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy"


@pytest.mark.parametrize(
    ("key", "value", "guess"),
    [
        (GPUS, "topology", "probably topology-aware was meant"),
        (GPUS, "Topology_Aware", "probably topology-aware was meant"),
        (GPUS, "pack", "probably binpack was meant"),
        (GPUS, "affinity", "it has no value like that"),
        (NODES, "bin-pack", "probably binpack was meant"),
        (NODES, "topology-aware", "it has no value like that"),
        ("nvidia.com/numa-bind", "ture", "probably true was meant"),
        ("nvidia.com/vgpu-mode", "hamicore", "probably hami-core was meant"),
    ],
)
def test_a_value_that_hami_does_not_know_is_named_with_the_one_that_was_meant(key: str, value: str, guess: str) -> None:
    assert of_pod(annotations={key: value}) == [f"GT171: {key}: HAMi does not know {value}; {guess}"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((GPUS, value) for value in ("topology-aware", "mutex", "numa", "binpack, numa", "")),
        (NODES, "spread"),
        *(("nvidia.com/numa-bind", value) for value in ("true", "True", "1", "false")),
        *(("nvidia.com/vgpu-mode", value) for value in ("hami-core", "mig", "hami-core,mig")),
        ("hami.io/numa-alignment", "always"),  # HAMi refuses this itself
    ],
)
def test_a_value_that_hami_knows_is_not_named(key: str, value: str) -> None:
    assert of_pod(annotations={key: value}) == []


def test_in_a_list_the_word_is_named_and_a_long_value_is_cut() -> None:
    assert of_pod(annotations={GPUS: "binpack,numa-aware"}) == [
        f"GT171: {GPUS}: HAMi does not know numa-aware; probably numa was meant"
    ]
    (found,) = of_pod(annotations={GPUS: "x" * 1_000_000})
    assert len(found) < 200


@pytest.mark.parametrize("resources", [{"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}])
def test_admission_warns_of_values_of_whole_cards_and_of_slices(resources: dict[str, int]) -> None:
    asking = container(gpus=None, resources={"limits": resources})
    outcome, _ = judge(pod(asking, annotations={GPUS: "topology"}))
    assert any("probably topology-aware was meant" in text for text in outcome.warnings)

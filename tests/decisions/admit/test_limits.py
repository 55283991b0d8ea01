"""What one pod may ask of us: at a limit it is prepared, beyond it is refused by name, and only if it is ours."""

import re
from typing import Any

import msgspec
import pytest

from tests.judge import HAMI_2_9, TEAM_A, judge, policy
from tests.pods import Manifest, container, pod, team_a
from webhook.decisions.admit.admission import admit
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import MalformedPod, Namespace, Pod, PodSpec
from webhook.objects.review import encode_reply
from webhook.words.outcome import MESSAGE_LIMIT, Kind, Outcome, Reason

Limits = dict[str, int]


def decide(manifest: Manifest, namespace: Namespace = TEAM_A, limits: Limits | None = None) -> Outcome:
    """The outcome, without what must hold for small pods: a copy of a large one takes too long."""
    return admit(msgspec.json.decode(to_json(manifest), type=Pod), namespace, policy(limits=limits or {}), HAMI_2_9)


def containers(count: int) -> Manifest:
    return pod(container(), *(container(f"c{number}", gpus=None) for number in range(count - 1)))


def init_containers(count: int) -> Manifest:
    return pod(initContainers=[container(f"i{number}", gpus=None) for number in range(count - 1)])


def env_annotations(count: int) -> Manifest:
    return pod(annotations={f"gpu.topology/env.V{number}": "x" for number in range(count)})


def allocated(segments: int) -> Manifest:
    text = "".join(f"GPU-{number},NVIDIA,0,0:;" for number in range(segments))
    return pod(annotations={"hami.io/vgpu-node": "n", "hami.io/vgpu-devices-allocated": text})


LIMITED: list[tuple[str, Any, int, str]] = [
    ("containers", containers, 128, "at most 128 containers (limits.containers)"),
    ("containers", init_containers, 128, "at most 128 containers (limits.containers)"),
    (
        "envAnnotations",
        env_annotations,
        128,
        "at most 128 variables of gpu.topology/env.NAME annotations (limits.envAnnotations)",
    ),
    ("segments", allocated, 128, "at most 128 segments (limits.segments)"),
    ("devices", allocated, 40, "at most 40 devices (limits.devices)"),
]
IDS = [f"{setting}-{made.__name__}-{most}" for setting, made, most, _ in LIMITED]


@pytest.mark.parametrize(("setting", "made", "most", "expected"), LIMITED, ids=IDS)
def test_at_a_limit_a_pod_is_prepared(setting: str, made: Any, most: int, expected: str) -> None:
    assert expected
    assert decide(made(most), limits={setting: most}).reason is Reason.INJECTED


@pytest.mark.parametrize(("setting", "made", "most", "expected"), LIMITED, ids=IDS)
def test_beyond_a_limit_a_pod_is_refused_by_its_name(setting: str, made: Any, most: int, expected: str) -> None:
    outcome = decide(made(most + 1), limits={setting: most})
    assert (outcome.kind, outcome.reason, outcome.operations) == (Kind.REFUSE, Reason.OVER_LIMIT, [])
    assert f"pod team-a/train: expected {expected}, found " in outcome.message


@pytest.mark.parametrize(("setting", "made", "most", "expected"), LIMITED, ids=IDS)
def test_with_a_higher_limit_the_same_pod_is_prepared(setting: str, made: Any, most: int, expected: str) -> None:
    assert expected
    assert decide(made(most + 2), limits={setting: most + 2}).reason is Reason.INJECTED


def test_a_second_admission_at_a_limit_ends_like_the_first() -> None:
    outcome, _ = judge(init_containers(3), rules=policy(limits={"containers": 3}))
    assert outcome.reason is Reason.INJECTED


def test_the_bytes_of_a_reply_bound_its_operations() -> None:
    """128 variables for each of 128 containers are within the other limits."""
    asked = {f"gpu.topology/env.V{number}": "x" for number in range(128)}
    outcome = decide(pod(*(container(f"c{number}") for number in range(128)), annotations=asked))
    assert outcome.reason is Reason.OVER_LIMIT
    assert "limits.replyBytes" in outcome.message


@pytest.mark.parametrize(("most", "reason"), [(2, Reason.OVER_LIMIT), (3, Reason.INJECTED)])
def test_a_container_of_a_user_with_the_name_of_ours_counts(most: int, reason: Reason) -> None:
    manifest = pod(container("a", 2), container("b"))
    manifest["spec"]["initContainers"] = [{"name": "gpu-topology-remap", "image": "registry.example.com/fetch:1"}]
    outcome, _ = judge(manifest, rules=policy(limits={"containers": most}))
    assert outcome.reason is reason


def long_variables(length: int) -> Manifest:
    return pod(container("a"), container("b"), annotations={"gpu.topology/env.LONG": "x" * length})


def test_a_reply_may_have_a_mebibyte() -> None:
    outcome = decide(long_variables(360_000))
    assert outcome.reason is Reason.INJECTED
    assert 960_000 < len(encode_reply("705ab4f5-6393-11e8-b7cc-42010a800002", outcome)) <= 1024 * 1024


def test_a_reply_that_would_be_longer_refuses_the_pod() -> None:
    outcome = decide(long_variables(370_000))
    assert outcome.reason is Reason.OVER_LIMIT
    expected = (
        r"GT142: pod team-a/train: expected at most 1048576 bytes of the answer to a review (limits.replyBytes), found "
    )
    assert outcome.message.startswith(expected)


def test_escapes_count_in_a_reply() -> None:
    manifest = long_variables(0)
    manifest["metadata"]["annotations"]["gpu.topology/env.LONG"] = "\x01" * 70_000
    assert decide(manifest).reason is Reason.OVER_LIMIT


def beyond_everything() -> Manifest:
    """More containers and env annotations than any limit allows."""
    many = [container(f"c{n}", env=[{"name": f"V{k}", "value": ""} for k in range(10)]) for n in range(1100)]
    return pod(*many, annotations={f"gpu.topology/env.V{number}": "x" for number in range(500)})


@pytest.mark.parametrize(
    ("namespace", "changes", "reason"),
    [
        (Namespace("team-a"), {}, Reason.NAMESPACE_NOT_ENABLED),
        (TEAM_A, {"labels": {"gpu.topology/injection": "disabled"}}, Reason.OPTED_OUT),
        (team_a({"gpu.topology/inject": "false"}), {}, Reason.NOT_REQUESTED),
        (team_a({"gpu.topology/containers": "other"}), {}, Reason.NO_CONTAINER_SELECTED),
    ],
    ids=["namespace", "pod", "inject", "containers"],
)
def test_a_pod_that_is_not_ours_passes_whatever_its_size(
    namespace: Namespace, changes: Manifest, reason: Reason
) -> None:
    manifest = beyond_everything()
    manifest["metadata"] |= changes
    outcome = decide(manifest, namespace)
    assert (outcome.kind, outcome.reason) == (Kind.SKIP, reason)


def test_a_refusal_is_cut_however_long_the_name_in_it() -> None:
    name = "c" * 1_000_000
    outcome = decide(pod(container(name, gpus="many")))
    assert outcome.reason is Reason.BAD_RESOURCE
    assert len(outcome.message) == MESSAGE_LIMIT + len("...")


def test_the_name_of_a_pod_in_a_message_is_no_longer_than_a_name() -> None:
    manifest = pod(annotations={"gpu.topology/inject": "perhaps"})
    manifest["metadata"]["name"] = "p" * 1_000_000
    assert re.search(r": annotation gpu\.topology/inject on pod team-a/p{200,253}\.\.\. ", decide(manifest).message)


def test_json_that_is_nested_too_deep_makes_a_malformed_pod() -> None:
    """As a whole it may just be read: what is decoded later has less room on the stack."""
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    affinity = b'{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[' + deep + b"]}}"
    with pytest.raises(MalformedPod, match=r"^affinity: expected .* nested too deep$"):
        assert PodSpec(affinity_json=msgspec.Raw(affinity)).affinity

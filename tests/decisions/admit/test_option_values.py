"""Every option, with values that do not parse: the pod is refused, and the message says where and why."""

import pytest

from tests.judge import judge
from tests.pods import container, effective_env, pod, team_a
from webhook.decisions.options import probably_meant
from webhook.words.outcome import Kind, Reason

BOOLEAN = '"true" or "false"'
PROFILES = "one of exclusive, pod-peers, node-peers, observe"
SIZE = 'a size such as "8Gi"'
BANDWIDTH = 'a number of GB/s such as "100"'
CONTAINERS = 'container names such as "prefill,decode"'
GROUP = "a label value of at most 63 letters, digits, '-', '_' and '.'"

BAD_VALUES = [
    *(("inject", bad, BOOLEAN) for bad in ("", "yes", "True", "1", " true")),
    *(("profile", bad, PROFILES) for bad in ("", "best", "Exclusive", "pod_peers", "exclusive ")),
    *(("policy", bad, "one of best-effort, nvlink, single-numa, spread") for bad in ("", "fast", "NVLINK")),
    *(("require-nvlink", bad, BOOLEAN) for bad in ("", "required", "TRUE", "0")),
    *(
        ("min-bandwidth", bad, BANDWIDTH)
        for bad in ("", "fast", "-1", "0", "nan", "inf", "1e999", "100 GB/s", "0x10", "1_000", "\u0664")
    ),
    *(("on-violation", bad, "one of warn, deny") for bad in ("", "panic", "Deny")),
    *(("nvls", bad, "one of auto, on, off") for bad in ("", "ON", "true", "2")),
    *(("nccl-p2p-level", bad, "one of auto, NVL, PIX, PXB, PHB, SYS") for bad in ("", "nvl", "LOC", "5")),
    *(("topology-file", bad, BOOLEAN) for bad in ("", "no", "/etc/topo.xml")),
    *(("host-ipc", bad, BOOLEAN) for bad in ("", "host")),
    *(("host-pid", bad, BOOLEAN) for bad in ("", "host")),
    *(("host-network", bad, BOOLEAN) for bad in ("", "host")),
    *(("shm-size", bad, SIZE) for bad in ("", "big", "8GB", "-8Gi", "0", "8 Gi", "1" * 30, "8Gi\n", "\u0668Gi")),
    *(("remap", bad, "one of auto, init, sidecar, binding") for bad in ("", "daemonset", "Init")),
    *(("containers", bad, CONTAINERS) for bad in ("", ",", "train,", "Train", "a b", "-train", "train.0")),
    *(("group", bad, GROUP) for bad in ("", "a b", "-a", "a-", "a/b", "ü")),
    *(("colocate", bad, "one of required, preferred") for bad in ("", "yes", "Required")),
]


def refusal(problem: str) -> str:
    return f"GT151: an option cannot be read: {problem}. Correct the annotation"


def shown(value: str) -> str:
    """Control characters are escaped, so that no value writes to a log or terminal more than itself."""
    return value.replace("\n", "\\n")


def test_a_value_that_does_not_parse_refuses_the_pod_and_says_where(subtests: pytest.Subtests) -> None:
    for option, value, expected in BAD_VALUES:
        with subtests.test(option=option, value=value):
            outcome, _ = judge(pod(annotations={f"gpu.topology/{option}": value}))
            assert (outcome.kind, outcome.reason) == (Kind.REFUSE, Reason.BAD_ANNOTATION)
            source = f"annotation gpu.topology/{option} on pod team-a/train"
            assert outcome.message == refusal(f'{source}: expected {expected}, found "{shown(value)}"')


def test_the_same_value_on_the_namespace_names_the_namespace(subtests: pytest.Subtests) -> None:
    for option, value, expected in BAD_VALUES:
        with subtests.test(option=option, value=value):
            outcome, _ = judge(pod(), team_a({f"gpu.topology/{option}": value}))
            assert (outcome.kind, outcome.reason) == (Kind.REFUSE, Reason.BAD_ANNOTATION)
            source = f"annotation gpu.topology/{option} on namespace team-a"
            assert outcome.message == refusal(f'{source}: expected {expected}, found "{shown(value)}"')


OPTIONS = sorted({option for option, _, _ in BAD_VALUES})


@pytest.mark.parametrize("option", OPTIONS)
def test_a_huge_value_is_refused_and_cut_in_the_message(option: str) -> None:
    outcome, _ = judge(pod(annotations={f"gpu.topology/{option}": "%" * 100_000}))
    assert outcome.reason == Reason.BAD_ANNOTATION
    assert f"annotation gpu.topology/{option} on pod team-a/train: expected " in outcome.message
    assert 'found "' + "%" * 60 + '..." (100000 characters). ' in outcome.message
    assert len(outcome.message) < 350


@pytest.mark.parametrize("option", ["containers", "group"])
def test_a_name_of_64_characters_is_refused_and_one_of_63_is_not(option: str) -> None:
    outcome, _ = judge(pod(container("x" * 63), annotations={f"gpu.topology/{option}": "x" * 63}))
    assert outcome.kind is Kind.PATCH
    outcome, _ = judge(pod(container("x" * 63), annotations={f"gpu.topology/{option}": "x" * 64}))
    assert outcome.reason == Reason.BAD_ANNOTATION
    assert '..." (64 characters)' in outcome.message


@pytest.mark.parametrize("value", ["9" * 100_000, "1" * 5_000])
@pytest.mark.parametrize("option", ["min-bandwidth", "shm-size"])
def test_a_huge_number_is_refused(option: str, value: str) -> None:
    outcome, _ = judge(pod(annotations={f"gpu.topology/{option}": value}))
    assert outcome.reason == Reason.BAD_ANNOTATION
    assert len(outcome.message) < 350


def test_a_long_list_of_container_names_is_refused_with_a_short_message() -> None:
    names = ",".join(f"c{number}" for number in range(20_000))
    outcome, _ = judge(pod(annotations={"gpu.topology/containers": names}))
    assert outcome.kind is Kind.REFUSE
    assert outcome.reason == Reason.UNKNOWN_CONTAINER
    assert len(outcome.message) < 1000


def test_a_bad_value_behind_a_good_one_of_the_pod_still_refuses_it() -> None:
    outcome, _ = judge(pod(annotations={"gpu.topology/nvls": "on"}), team_a({"gpu.topology/nvls": "sure"}))
    assert outcome.reason == Reason.BAD_ANNOTATION
    assert "on namespace team-a" in outcome.message


def test_a_generated_name_is_shown_by_its_beginning() -> None:
    manifest = pod(annotations={"gpu.topology/nvls": "sure"})
    manifest["metadata"] = {"generateName": "train-", "annotations": {"gpu.topology/nvls": "sure"}}
    outcome, _ = judge(manifest)
    assert "annotation gpu.topology/nvls on pod team-a/train-*: expected one of" in outcome.message


@pytest.mark.parametrize(
    ("name", "value", "fragment"),
    [
        ("env.", "x", 'expected env. and the name of an environment variable, found ""'),
        ("env.1A", "x", 'found "1A"'),
        ("env.A-B C", "x", 'found "A-B C"'),
        ("env.NCCL_DEBUG", "", 'expected a value: NCCL misreads empty variables, found ""'),
        ("env.CUDA_VISIBLE_DEVICES", "0,1", "expected a variable that no profile sets"),
        ("env.NVIDIA_VISIBLE_DEVICES", "all", "Remove the annotation"),
        ("env.CUDA_DISABLE_CONTROL", "false", 'found "CUDA_DISABLE_CONTROL"'),
        ("env.NCCL_HOSTID", "h", 'found "NCCL_HOSTID"'),
        ("env.NCCL_TOPO_FILE", "/x", 'found "NCCL_TOPO_FILE"'),
        ("env.GPU_TOPOLOGY_PROFILE", "x", 'found "GPU_TOPOLOGY_PROFILE"'),
    ],
)
def test_an_env_annotation_that_cannot_be_is_refused(name: str, value: str, fragment: str) -> None:
    outcome, _ = judge(pod(annotations={f"gpu.topology/{name}": value}))
    assert outcome.reason == Reason.BAD_ANNOTATION
    assert f"annotation gpu.topology/{name} on pod team-a/train" in outcome.message
    assert fragment in outcome.message


def test_a_huge_env_value_is_passed_on_as_it_is() -> None:
    outcome, after = judge(pod(annotations={"gpu.topology/env.UCX_TLS": "x" * 100_000}))
    assert outcome.kind is Kind.PATCH
    assert effective_env(after, "train")["UCX_TLS"] == "x" * 100_000


@pytest.mark.parametrize(
    ("value", "fragment"),
    [
        ("two", 'expected a whole number such as "4", found "two"'),
        ("1.5", 'found "1.5"'),
        (-1, 'found "-1"'),
        ("", 'found ""'),
        ("9" * 100_000, "(100000 characters)"),
        (2.5, 'found "2.5"'),
    ],
)
def test_a_gpu_count_that_is_none_is_refused(value: str | float, fragment: str) -> None:
    main = container()
    main["resources"]["limits"]["nvidia.com/gpu"] = value
    outcome, _ = judge(pod(main))
    assert outcome.reason == Reason.BAD_RESOURCE
    assert "resource nvidia.com/gpu of container train: " in outcome.message
    assert fragment in outcome.message


@pytest.mark.parametrize(
    ("annotation", "meant"),
    [
        ("gpu.topology/min-bandwith", "gpu.topology/min-bandwidth"),
        ("gpu.topology/shmsize", "gpu.topology/shm-size"),
        ("gpu.topology/nccl_p2p_level", "gpu.topology/nccl-p2p-level"),
        ("gpu.topology/hostipc", "gpu.topology/host-ipc"),
    ],
)
def test_an_unknown_annotation_gets_a_suggestion(annotation: str, meant: str) -> None:
    outcome, after = judge(pod(annotations={annotation: "1"}))
    assert outcome.kind is Kind.PATCH
    assert f"GT118: unknown annotation {annotation}; did you mean {meant}?" in outcome.warnings
    assert after["metadata"]["annotations"][annotation] == "1"


def test_an_unknown_annotation_that_resembles_nothing_is_named_without_a_suggestion() -> None:
    outcome, _ = judge(pod(annotations={"gpu.topology/zzz": "1"}))
    assert "GT117: unknown annotation gpu.topology/zzz" in outcome.warnings


def test_of_many_unknown_annotations_a_few_are_named_and_the_others_counted() -> None:
    outcome, _ = judge(pod(annotations={f"gpu.topology/zzz-{number:02}": "1" for number in range(40)}))
    unknown = [text for text in outcome.warnings if "unknown annotation" in text]
    assert unknown == [
        *(f"GT117: unknown annotation gpu.topology/zzz-{number:02}" for number in range(10)),
        "GT119: 30 more unknown annotations",
    ]


def test_nobody_looks_for_what_a_very_long_name_may_mean() -> None:
    assert probably_meant("gpu.topology/min-bandwith") == "gpu.topology/min-bandwidth"
    assert probably_meant(f"gpu.topology/min-bandwith{'x' * 40}") is None
    assert probably_meant(f"gpu.topology/{'x' * 1_000_000}") is None


@pytest.mark.parametrize("count", ["1e18", "1E", "9" * 18, "1000000"])
def test_a_gpu_count_beyond_reason_is_passed_on_as_it_is(count: str) -> None:
    outcome, after = judge(pod(container(gpus=count)))
    assert outcome.kind is Kind.PATCH
    assert after["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == count


def test_outputs_and_annotations_of_others_are_not_unknown() -> None:
    known = {
        "gpu.topology/link": "x",
        "gpu.topology/cuda-visible-devices.7": "0",
        "gpu.topology/nccl-env.NCCL_ALGO": "x",
    }
    outcome, _ = judge(
        pod(annotations={**known, "gpu.topology/env.A": "b", "example.com/nvls": "x", "gpu.topology": "x"})
    )
    assert outcome.warnings == []

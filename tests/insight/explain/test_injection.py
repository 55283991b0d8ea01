"""Opted in, injected, and nothing missing."""

import pytest

from tests.insight.explain.situations import annotated, failing, finding, injected, said, told
from tests.judge import TEAM_A, policy
from tests.pods import ALL_ALLOWED, Manifest, container, pod, team_a
from webhook.insight.explain.findings import Finding, Report
from webhook.objects.pod import Namespace
from webhook.words import names

UNPREPARED = (
    "no container of whole GPUs has CUDA_DISABLE_CONTROL as a true literal, NCCL_P2P_LEVEL and NCCL_NVLS_ENABLE: the "
    "webhook did not prepare the pod"
)
LABEL_OF_AN_OPTION = "the label gpu.topology/policy has no effect: gpu.topology/policy is read as an annotation only"
PREPARED = "the containers are prepared for profile exclusive"
WATCHED = "profile observe, from annotation gpu.topology/profile of the pod: the webhook only watches the pod"
UNREADABLE = (
    '; annotation gpu.topology/injected: expected a version and a profile such as "0.1.0 exclusive", '
    'found "who knows", which decides nothing'
)
MARKS = [
    (None, "; there is no annotation gpu.topology/injected"),
    ("who knows", UNREADABLE),
]
"""Marks, and what is said of them on a pod that should have one."""


def says(profile: str) -> str:
    """What is said of a mark that does not fit."""
    return f"; annotation gpu.topology/injected says {profile} (version 0.1.0), which decides nothing"


def marked(manifest: Manifest, mark: str | None) -> Manifest:
    """The pod with this mark instead of its own."""
    own = manifest["metadata"].get("annotations") or {}
    others = {key: value for key, value in own.items() if key != "gpu.topology/injected"}
    unmarked = manifest | {"metadata": manifest["metadata"] | {"annotations": others}}
    return annotated(unmarked, injected=mark) if mark else unmarked


def without_injected(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.condition != "injected"]


def take_control_away(manifest: Manifest, index: int) -> None:
    """Make the container one of a slice that HAMi's library limits."""
    main = manifest["spec"]["containers"][index]
    main["env"] = [entry for entry in main["env"] if entry["name"] != "CUDA_DISABLE_CONTROL"]
    main["resources"]["limits"]["nvidia.com/gpucores"] = "30"


def test_a_pod_that_asks_for_two_gpus_is_opted_in() -> None:
    report = told(pod())
    assert said(report, "opted-in") == ("holds", "namespace team-a has opted in, and the pod asks for 2 GPUs")


def test_a_namespace_that_has_not_opted_in_fails_with_what_its_administrator_can_do() -> None:
    found = finding(told(pod(), Namespace("team-a")), "opted-in")
    assert found.verdict == "fails"
    assert found.evidence == "the namespace has not opted in"
    assert found.remedy == "An administrator sets the label gpu.topology/injection: enabled on the namespace"


@pytest.mark.parametrize(("value", "shown"), [("true", "true"), ("Enabled", "Enabled"), ("", '""')])
def test_a_label_with_another_value_is_told(value: str, shown: str) -> None:
    found = finding(told(pod(), Namespace("team-a", {names.INJECTION: value})), "opted-in")
    label = f"its label gpu.topology/injection is {shown}, which has no effect"
    assert found.evidence == f"the namespace has not opted in: {label}"
    off = finding(told(pod(), Namespace("team-a", {names.INJECTION: "disabled"})), "opted-in")
    assert off.evidence == "the namespace has not opted in"


@pytest.mark.parametrize(
    ("manifest", "evidence"),
    [
        (pod(annotations={"gpu.topology/inject": "false"}), "the pod has opted out"),
        (pod(labels={"gpu.topology/injection": "disabled"}), "the pod has opted out"),
        (
            pod(container(gpus=2, resources={"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}})),
            "the pod asks for a vGPU slice and not for whole cards",
        ),
        (
            pod(annotations={"gpu.topology/inject": "maybe"}),
            (
                "an option cannot be read: annotation gpu.topology/inject on pod team-a/train: "
                'expected "true" or "false", found "maybe"'
            ),
        ),
    ],
)
def test_opting_in_fails_for_the_reason_that_admission_gives(manifest: Manifest, evidence: str) -> None:
    assert said(told(manifest), "opted-in") == ("fails", evidence)


def test_a_namespace_that_is_not_known_says_nothing_against_a_prepared_pod() -> None:
    report = told(injected(pod()), Namespace("team-a", known=False))
    verdict, evidence = said(report, "opted-in")
    assert verdict == "unknown"
    assert "would not be now" not in evidence


def test_a_slice_is_left_alone_in_every_namespace() -> None:
    sliced = pod(container(resources={"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}}))
    report = told(sliced, Namespace("team-a", known=False))
    assert said(report, "opted-in") == (
        "unknown",
        ("the namespace is not known here; whatever it says, the pod asks for a vGPU slice and not for whole cards"),
    )
    assert finding(report, "injected").remedy.startswith("See to opted-in, and create the pod again")


def test_what_the_webhook_would_do_is_not_guessed_from_what_somebody_did_by_hand() -> None:
    by_hand = pod(container(env=[{"name": "NCCL_HOSTID", "value": "a"}]), hostIPC=True, hostPID=True)
    report = told(by_hand, TEAM_A)
    verdict, evidence = said(report, "prepared")
    assert verdict == "not-needed", evidence
    assert "allow-node-gpus" not in evidence
    assert finding(report, "host-hash").verdict == "fails"


@pytest.mark.parametrize("namespace", [TEAM_A, Namespace("team-a"), Namespace("team-a", known=False)])
@pytest.mark.parametrize("resource", ["cpu", "nvidia.com/mig-1g.5gb"])
def test_a_pod_that_admission_skips_is_not_refused(namespace: Namespace, resource: str) -> None:
    report = told(pod(container(resources={"limits": {resource: 1}})), namespace)
    for name in ("opted-in", "injected", "prepared"):
        assert finding(report, name).verdict == "not-needed"
    assert report.fails == (resource != "cpu")


def test_one_gpu_needs_no_injection_unless_the_pod_asks_for_it() -> None:
    single = pod(container(gpus=1))
    report = told(single)
    assert finding(report, "opted-in").verdict == "not-needed"
    assert finding(report, "injected").verdict == "not-needed"
    assert not report.fails
    asked = told(annotated(single, inject="true"))
    assert finding(asked, "injected").verdict == "fails"


def test_a_resource_that_cannot_be_read_is_all_that_is_said() -> None:
    report = told(pod(container(gpus="two")))
    assert failing(report) == ["opted-in", "injected", "prepared"]
    assert finding(report, "opted-in").evidence == (
        "a request cannot be read: resource nvidia.com/gpu of container train: "
        'expected a whole number such as "4", found "two"'
    )
    assert report.conclusion == "What the pod requests cannot be read."
    assert report.reach == "unknown"


def test_another_version_is_named_beside_this_one() -> None:
    older = annotated(injected(pod()), injected="0.0.9 exclusive")
    assert said(told(older), "injected") == (
        "holds",
        f"{PREPARED}; annotation gpu.topology/injected names version 0.0.9, and this is version 0.1.0",
    )


def test_an_injected_pod_stays_one_when_its_namespace_opts_out() -> None:
    report = told(injected(pod()), Namespace("team-a"))
    assert said(report, "opted-in") == (
        "not-needed",
        "the pod's containers are prepared; those of a pod like it would not be now: the namespace has not opted in",
    )
    assert not report.fails


def test_a_pod_that_is_only_observed_is_not_prepared() -> None:
    report = told(injected(pod(annotations={"gpu.topology/profile": "observe"})))
    found = finding(report, "injected")
    assert (found.verdict, found.evidence) == (
        "fails",
        f"{WATCHED}; annotation gpu.topology/injected names version 0.1.0",
    )
    assert found.remedy.startswith("Set another profile in annotation gpu.topology/profile of the pod and create")
    assert finding(report, "control").verdict == "fails"


def test_a_profile_that_the_pod_did_not_choose_is_changed_where_it_stands() -> None:
    watching = Namespace("team-a", {names.INJECTION: "enabled"}, {names.PROFILE: "observe"})
    found = finding(told(pod(), watching), "injected")
    assert found.evidence.startswith("profile observe, from annotation gpu.topology/profile of namespace team-a: ")
    assert found.remedy.startswith("Set another profile in annotation gpu.topology/profile of namespace team-a and ")
    defaults = policy(defaults={"profile": "observe"})
    found = finding(told(pod(), rules=defaults), "injected")
    assert found.remedy.startswith("Set another profile in defaults.profile of the configuration and ")


@pytest.mark.parametrize("profile", ["exclusive", "pod-peers", "node-peers"])
@pytest.mark.parametrize(("mark", "evidence"), [*MARKS, ("0.1.0 observe", says("observe"))])
def test_a_pod_whose_containers_are_prepared_is_injected_whatever_its_mark_says(
    profile: str, mark: str | None, evidence: str
) -> None:
    prepared = injected(pod(container("a"), container("b"), annotations={"gpu.topology/profile": profile}))
    report = told(marked(prepared, mark))
    assert said(report, "injected") == ("holds", f"the containers are prepared for profile {profile}{evidence}")
    assert said(report, "prepared") == ("holds", "everything is there that this profile needs")
    assert without_injected(report) == without_injected(told(prepared))


@pytest.mark.parametrize(
    ("mark", "evidence"),
    [
        (None, ""),
        ("who knows", UNREADABLE),
        ("0.1.0 exclusive", says("exclusive")),
        ("0.1.0 node-peers", says("node-peers")),
        ("0.1.0 observe", says("observe")),
    ],
)
def test_a_mark_that_somebody_wrote_on_a_plain_pod_does_not_make_it_injected(mark: str | None, evidence: str) -> None:
    report = told(marked(pod(), mark))
    assert said(report, "injected") == ("fails", f"{UNPREPARED}{evidence}")
    assert report.conclusion.startswith("The webhook did not prepare this pod.")
    assert without_injected(report) == without_injected(told(pod()))


@pytest.mark.parametrize(("mark", "evidence"), [*MARKS, ("0.1.0 exclusive", says("exclusive"))])
def test_a_pod_is_observed_if_admission_would_observe_it_now_whatever_its_mark_says(
    mark: str | None, evidence: str
) -> None:
    watched = pod(annotations={"gpu.topology/profile": "observe"})
    report = told(marked(watched, mark))
    assert said(report, "injected") == ("fails", f"{WATCHED}{evidence}")
    assert without_injected(report) == without_injected(told(watched))


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(pod(annotations={"gpu.topology/profile": "exclusive"}), id="another profile now"),
        pytest.param(
            pod(labels={"gpu.topology/injection": "disabled"}, annotations={"gpu.topology/profile": "observe"}),
            id="opted out",
        ),
        pytest.param(
            pod(annotations={"gpu.topology/profile": "observe", "gpu.topology/containers": "other"}), id="refused"
        ),
    ],
)
def test_a_pod_that_admission_would_not_observe_now_is_not_observed(manifest: Manifest) -> None:
    report = told(annotated(manifest, injected="0.1.0 observe"))
    assert said(report, "injected") == ("fails", f"{UNPREPARED}{says('observe')}")


def test_the_profile_follows_from_the_containers_and_not_from_an_annotation_that_came_later() -> None:
    peers = injected(pod(container("a"), container("b"), annotations={"gpu.topology/profile": "pod-peers"}))
    report = told(annotated(peers, profile="exclusive", injected="0.1.0 exclusive"))
    assert said(report, "injected")[1].startswith("the containers are prepared for profile pod-peers; ")
    assert finding(report, "pid-namespace").verdict == "holds"
    alone = told(annotated(injected(pod()), profile="pod-peers", injected="0.1.0 pod-peers"))
    assert said(alone, "injected")[1].startswith(f"{PREPARED}; ")
    assert finding(alone, "peers").verdict == "not-needed"


def test_what_the_webhook_would_do_to_a_pod_is_told() -> None:
    assert said(told(pod()), "prepared") == (
        "not-needed",
        (
            "the webhook would give it whole cards; switch HAMi's CUDA interception off; give it enough shared memory; "
            "set NCCL up for the links between its GPUs; "
            "verify the GPUs and write the NCCL topology file when it starts"
        ),
    )


@pytest.mark.parametrize(
    ("manifest", "namespace", "evidence"),
    [
        (
            pod(container(env=[{"name": "CUDA_DISABLE_CONTROL", "value": "false"}])),
            TEAM_A,
            (
                "the webhook would refuse the pod: GT213: container train sets CUDA_DISABLE_CONTROL itself, but whole "
                "cards need the literal true"
            ),
        ),
        (
            pod(),
            team_a({"gpu.topology/shm-size": "big"}),
            (
                "the webhook would refuse the pod: GT151: an option cannot be read: annotation gpu.topology/shm-size "
                'on namespace team-a: expected a size such as "8Gi", found "big". Correct the annotation'
            ),
        ),
    ],
)
def test_what_admission_would_refuse_is_told_in_its_words(
    manifest: Manifest, namespace: Namespace, evidence: str
) -> None:
    assert said(told(manifest, namespace), "prepared") == ("fails", evidence)


def test_permissions_of_a_namespace_that_is_not_known_are_not_missed() -> None:
    report = told(pod(annotations={"gpu.topology/profile": "node-peers"}), Namespace("team-a", known=False))
    assert finding(report, "prepared").verdict == "not-needed"


def test_what_somebody_took_away_from_an_injected_pod_is_named() -> None:
    taken = injected(pod(container("train"), container("other")))
    take_control_away(taken, 1)
    found = finding(told(taken), "prepared")
    assert found.verdict == "fails"
    assert found.evidence == (
        "container other: nvidia.com/gpucores should be 100; container other lacks CUDA_DISABLE_CONTROL"
    )
    assert found.remedy.startswith("Find out who changed it, and create the pod again")


def test_a_pod_from_which_it_was_all_taken_away_is_not_injected_though_its_mark_says_so() -> None:
    taken = injected(pod())
    take_control_away(taken, 0)
    report = told(taken)
    assert said(report, "injected") == ("fails", f"{UNPREPARED}{says('exclusive')}")
    assert said(report, "prepared")[0] == "not-needed"


def test_values_that_the_binding_wrote_are_no_change() -> None:
    peers = injected(
        pod(container("a"), container("b"), annotations={"gpu.topology/profile": "pod-peers"}), ALL_ALLOWED
    )
    bound = annotated(
        peers,
        **{"cuda-visible-devices.0": "0,1", "cuda-visible-devices.1": "2,3", "visible-uuids": "GPU-1", "link": "x"},
    )
    assert finding(told(bound), "prepared").verdict == "holds"


def test_a_remap_image_of_another_configuration_is_no_fault() -> None:
    report = told(injected(pod()), rules=policy(remap={"image": "registry.local/other:2"}))
    assert finding(report, "prepared").verdict == "holds"


def test_what_is_only_watched_is_neither_changed_nor_refused() -> None:
    watched = pod(annotations={"gpu.topology/profile": "observe"})
    verdict, evidence = said(told(watched), "prepared")
    assert verdict == "not-needed"
    assert evidence.startswith("in profile observe the webhook only watches; profile exclusive would give it whole")
    refused = annotated(watched, **{"host-ipc": "true"})
    assert said(told(refused, TEAM_A), "prepared") == (
        "not-needed",
        (
            "in profile observe the webhook only watches; profile exclusive would refuse it: GT124: pod team-a/train: "
            "it needs hostIPC. Namespace team-a is not allowed that. An administrator can set its labels "
            'gpu.topology/allow-host-ipc: "true"'
        ),
    )


def test_keys_like_ours_are_hints_that_change_no_verdict() -> None:
    namespace = Namespace("team-a", ALL_ALLOWED.labels | {"gpu.topology/policy": "spread"})
    report = told(injected(pod(annotations={"gpu.topology-profile": "node-peers"})), namespace)
    assert said(report, "keys") == (
        "hint",
        "the annotation gpu.topology-profile has no effect here; did you mean the annotation gpu.topology/profile?",
    )
    assert said(report, "namespace-keys") == (
        "hint",
        f"namespace team-a: {LABEL_OF_AN_OPTION}",
    )
    plain = told(injected(pod()))
    assert (report.reach, report.conclusion) == (plain.reach, plain.conclusion)
    assert not [found for found in plain.findings if found.condition in ("keys", "namespace-keys")]


NODE_PEERS = pod(annotations={"gpu.topology/profile": "node-peers", "gpu.topology/group": "a"})


def test_a_pod_that_does_not_exist_because_a_label_is_missing_is_refused_once() -> None:
    report = told(NODE_PEERS, TEAM_A)
    assert [(each.condition, str(each.verdict)) for each in report.findings] == [
        ("opted-in", "holds"),
        ("injected", "not-needed"),
        ("prepared", "fails"),
    ]
    found = finding(report, "prepared")
    assert (found.code, found.stops) == ("GT158", True)
    assert found.evidence == (
        "the webhook would refuse the pod: GT124: pod team-a/train: it needs hostIPC; it needs hostPID; profile "
        "node-peers shows it every GPU of the node. Namespace team-a is not allowed that"
    )
    assert found.remedy == (
        'An administrator can set its labels gpu.topology/allow-host-ipc: "true", gpu.topology/allow-host-pid: "true", '
        'gpu.topology/allow-node-gpus: "true"'
    )
    assert (report.reach, report.conclusion) == (
        "none",
        "The webhook refuses this pod, so it is not created: prepared.",
    )


SLICES = container(resources={"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}})
REQUIRING, DENYING = {"gpu.topology/require-nvlink": "true"}, {"gpu.topology/on-violation": "deny"}
NOT_KEPT = "gpu.topology/require-nvlink is not kept: the pod asks for a vGPU slice and not for whole cards"


@pytest.mark.parametrize("namespace", [TEAM_A, Namespace("team-a", known=False)])
def test_a_requirement_of_a_pod_that_is_left_alone_is_a_hint(namespace: Namespace) -> None:
    found = finding(told(pod(SLICES, annotations=REQUIRING), namespace), "keys")
    assert (found.verdict, found.code, found.evidence) == ("hint", "GT176", NOT_KEPT)
    assert found.remedy.startswith("Leave the option out. To have it kept: Set gpu.topology/inject")


@pytest.mark.parametrize("manifest", [pod(SLICES), injected(pod(annotations=REQUIRING))])
def test_no_hint_where_nothing_is_required_or_the_pod_is_prepared(manifest: Manifest) -> None:
    assert "keys" not in [found.condition for found in told(manifest).findings]


def test_a_new_pod_that_denies_what_is_not_kept_would_be_refused() -> None:
    manifest = pod(SLICES, annotations=REQUIRING | DENYING)
    found = finding(told(manifest), "prepared")
    assert (found.verdict, found.code) == ("fails", "GT158")
    assert found.evidence.startswith("the webhook would refuse the pod: GT179: pod team-a/train requires")
    assert found.remedy.startswith("Leave the requirement out, or set gpu.topology/on-violation: warn")
    manifest["metadata"]["uid"] = "uid-1"
    assert finding(told(manifest), "keys").code == "GT179"


def test_a_new_pod_that_a_step_refuses_has_the_refusal_alone() -> None:
    own = container(env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}])
    annotations = {"gpu.topology/profile": "node-peers"}
    report = told(pod(own, annotations=annotations), ALL_ALLOWED)
    assert [found.condition for found in report.findings if found.fails] == ["prepared"]
    assert finding(report, "prepared").remedy.startswith("Remove the variable")
    assert report.judgement.remedy.startswith("Remove the variable")
    allowed = told(pod(annotations=annotations), ALL_ALLOWED)
    assert finding(allowed, "prepared").verdict == "not-needed"


def test_in_a_namespace_that_has_not_opted_in_no_step_refuses_it() -> None:
    own = container(env=[{"name": "CUDA_DISABLE_CONTROL", "value": "false"}])
    assert finding(told(pod(own), Namespace("team-b")), "prepared").verdict == "not-needed"
    assert finding(told(pod(own), TEAM_A), "prepared").verdict == "fails"


def test_a_version_that_somebody_made_long_is_cut() -> None:
    _, evidence = said(told(annotated(pod(), injected="9" * 1000 + " exclusive")), "injected")
    assert "9" * 65 not in evidence
    assert "... (1000 characters)" in evidence

"""Opted in, injected, and nothing missing."""

import pytest

from tests.explain.situations import annotated, failing, finding, injected, said, told
from tests.judge import TEAM_A, policy
from tests.pods import ALL_ALLOWED, Manifest, container, pod, team_a
from webhook.model.pod import Namespace


def test_a_pod_that_asks_for_two_gpus_is_opted_in() -> None:
    report = told(pod())
    assert said(report, "opted-in") == ("holds", "namespace team-a has opted in, and the pod asks for 2 GPUs")


def test_a_namespace_that_has_not_opted_in_fails_with_what_its_administrator_can_do() -> None:
    found = finding(told(pod(), Namespace("team-a")), "opted-in")
    assert found.verdict == "fails"
    assert found.evidence == "the namespace has not opted in"
    assert found.remedy == "An administrator sets the label gpu.topology/injection: enabled on the namespace"


@pytest.mark.parametrize(
    ("manifest", "evidence"),
    [
        (pod(annotations={"gpu.topology/inject": "false"}), "the pod has opted out"),
        (pod(labels={"gpu.topology/injection": "disabled"}), "the pod has opted out"),
        (
            pod(container(gpus=2, resources={"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}})),
            "the pod asks for a vGPU slice and did not say that it wants whole cards",
        ),
        (
            pod(annotations={"gpu.topology/inject": "maybe"}),
            'annotation gpu.topology/inject on pod team-a/train: expected "true" or "false", found "maybe"',
        ),
    ],
)
def test_opting_in_fails_for_the_reason_that_admission_gives(manifest: Manifest, evidence: str) -> None:
    assert said(told(manifest), "opted-in") == ("fails", evidence)


def test_a_namespace_that_is_not_known_leaves_it_open() -> None:
    verdict, _ = said(told(pod(), Namespace("team-a", known=False)), "opted-in")
    assert verdict == "unknown"


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
        (
            "the namespace is not known here; whatever it says, the pod asks for a vGPU slice and did not say that it "
            "wants whole cards"
        ),
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


def test_an_ask_that_was_changed_is_told_in_words() -> None:
    changed = injected(pod())
    changed["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 3000}}
    evidence = finding(told(changed), "prepared").evidence
    assert "{" not in evidence
    assert "'" not in evidence


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
        'resource nvidia.com/gpu of container train: expected a whole number such as "4", found "two"'
    )
    assert report.conclusion == "What the pod asks for cannot be read."
    assert report.reach == "unknown"


def test_an_injected_pod_says_by_which_version_and_for_which_profile() -> None:
    report = told(injected(pod()))
    assert said(report, "injected") == ("holds", "version 0.1.0 prepared it for profile exclusive")
    assert said(report, "prepared") == ("holds", "everything is there that this profile needs")


def test_another_version_is_named_beside_this_one() -> None:
    older = annotated(injected(pod()), injected="0.0.9 exclusive")
    assert said(told(older), "injected") == (
        "holds",
        "version 0.0.9 prepared it for profile exclusive; this is version 0.1.0",
    )


def test_an_injected_pod_stays_one_when_its_namespace_opts_out() -> None:
    report = told(injected(pod()), Namespace("team-a"))
    assert said(report, "opted-in") == (
        "not-needed",
        "the pod was injected when it was created; one like it would not be now: the namespace has not opted in",
    )
    assert not report.fails


def test_a_pod_that_is_only_observed_is_not_prepared() -> None:
    report = told(injected(pod(annotations={"gpu.topology/profile": "observe"})))
    found = finding(report, "injected")
    assert (found.verdict, found.evidence) == (
        "fails",
        "version 0.1.0 prepared it for profile observe: it is only watched",
    )
    assert finding(report, "control").verdict == "fails"


def test_a_mark_that_cannot_be_read_fails() -> None:
    assert said(told(annotated(pod(), injected="who knows")), "injected") == (
        "fails",
        (
            'annotation gpu.topology/injected: expected a version and a profile such as "0.1.0 exclusive", '
            'found "who knows"'
        ),
    )


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
                "the webhook would refuse the pod: container train sets CUDA_DISABLE_CONTROL itself, but whole cards "
                "need the literal true. Remove the variable, or opt out of injection"
            ),
        ),
        (
            pod(annotations={"gpu.topology/host-ipc": "true"}),
            TEAM_A,
            (
                "the webhook would refuse the pod: pod team-a/train: it needs hostIPC. Namespace team-a is not allowed "
                'that; an administrator can set its labels gpu.topology/allow-host-ipc: "true"'
            ),
        ),
        (
            pod(annotations={"gpu.topology/containers": "other"}),
            TEAM_A,
            (
                "the webhook would refuse the pod: annotation gpu.topology/containers on pod team-a/train: expected "
                'names of containers that ask for GPUs (train), found "other"'
            ),
        ),
        (
            pod(),
            team_a({"gpu.topology/shm-size": "big"}),
            (
                "the webhook would refuse the pod: annotation gpu.topology/shm-size on namespace team-a: expected a "
                'size such as "8Gi", found "big"'
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
    taken = injected(pod(container(gpus=2)))
    one = taken["spec"]["containers"][0]
    one["env"] = [entry for entry in one["env"] if entry["name"] != "CUDA_DISABLE_CONTROL"]
    one["resources"]["limits"]["nvidia.com/gpucores"] = "30"
    found = finding(told(taken), "prepared")
    assert found.verdict == "fails"
    assert found.evidence == (
        "container train: nvidia.com/gpucores should be 100; container train lacks CUDA_DISABLE_CONTROL"
    )
    assert found.remedy.startswith("Find out who changed it, and create the pod again")


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
            "in profile observe the webhook only watches; profile exclusive would refuse it: pod team-a/train: it "
            "needs hostIPC. Namespace team-a is not allowed that; an administrator can set its labels "
            'gpu.topology/allow-host-ipc: "true"'
        ),
    )

"""Each step by itself, for whoever explains a pod."""

import msgspec

from tests.judge import HAMI_2_9, TEAM_A, policy
from tests.pods import ALL_ALLOWED, Manifest, container, pod
from webhook.cli.workload import apply_in_place
from webhook.decisions.admit.admission import admit
from webhook.decisions.admit.preparation import pod_to_inject, prepare
from webhook.decisions.admit.trial import StepTrial, try_steps
from webhook.decisions.request.resources import read_requests
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Namespace, Pod
from webhook.words.choices import Profile


def tried(
    manifest: Manifest, namespace: Namespace = TEAM_A, profile: Profile = Profile.EXCLUSIVE
) -> dict[str, StepTrial]:
    found = msgspec.json.decode(to_json(manifest), type=Pod)
    requests = read_requests(found, policy().resources, policy().default_count)
    to_inject = pod_to_inject(found, namespace, requests, policy(), HAMI_2_9)
    assert to_inject is not None
    return try_steps(prepare(to_inject, profile))


def test_each_step_says_what_it_would_change() -> None:
    steps = tried(pod())
    paths = {name: [operation.path for operation in step.operations] for name, step in steps.items()}
    assert paths["disable-control"] == ["/spec/containers/0/env"]
    assert paths["shared-memory"] == ["/spec/volumes", "/spec/containers/0/volumeMounts"]
    assert paths["remap"][-1] == "/spec/initContainers"
    assert paths["visibility"] == []
    assert steps["disable-control"].purpose == "switch HAMi's CUDA interception off"


def test_a_step_that_refuses_does_not_end_the_others() -> None:
    steps = tried(pod(container(env=[{"name": "CUDA_DISABLE_CONTROL", "value": "no"}])))
    assert steps["disable-control"].refusal.startswith("GT213: container train sets CUDA_DISABLE_CONTROL itself")
    assert steps["shared-memory"].operations
    assert [name for name, step in steps.items() if step.refusal] == ["disable-control"]


def test_a_namespace_that_has_not_opted_in_makes_no_difference() -> None:
    assert tried(pod(), Namespace("team-a")).keys() == tried(pod()).keys()


def test_an_injected_pod_needs_no_step_more() -> None:
    manifest = pod(annotations={"gpu.topology/profile": "node-peers"})
    outcome = admit(msgspec.json.decode(to_json(manifest), type=Pod), ALL_ALLOWED, policy(), HAMI_2_9)
    apply_in_place(manifest, outcome.operations)
    steps = tried(manifest, ALL_ALLOWED, Profile.NODE_PEERS)
    assert [name for name, step in steps.items() if step.operations or step.refusal] == []

"""The signs that a pod is one rank of several of a job."""

import msgspec
import pytest

from tests.insight.explain.situations import decoded
from tests.pods import Manifest, container, pod
from webhook.decisions.request.ranks import RankedJob, job_of
from webhook.objects.claims import ClaimSpec

JOB, SET = "training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name"
GROUP, SIZE = "leaderworkerset.sigs.k8s.io/group-key", "leaderworkerset.sigs.k8s.io/size"
CHANNEL, GPU = "compute-domain-default-channel.nvidia.com", "gpu.nvidia.com"


def job(manifest: Manifest, **specs: ClaimSpec | None) -> RankedJob | None:
    found = decoded(manifest)
    return job_of(found, (found.spec and found.spec.containers) or (), specs)


def with_env(**values: str) -> Manifest:
    return container(gpus=1, env=[{"name": name, "value": value} for name, value in values.items()])


def labelled(labels: dict[str, str], annotations: dict[str, str] | None = None, **values: str) -> Manifest:
    return pod(with_env(**values), labels=labels, annotations=annotations or {})


@pytest.mark.parametrize(
    ("manifest", "name", "label"),
    [
        (labelled({JOB: "train"}), "training job train", (JOB, "train")),
        (labelled({JOB: "train"}, WORLD_SIZE="8"), "training job train", (JOB, "train")),
        (labelled({SET: "train"}), "JobSet train", (SET, "train")),
        (labelled({GROUP: "f1"}, {SIZE: "2"}), "LeaderWorkerSet group f1", (GROUP, "f1")),
        (pod(with_env(MASTER_ADDR="a-0", WORLD_SIZE="8")), "a job (MASTER_ADDR with WORLD_SIZE=8)", None),
    ],
    ids=["a training job", "its world", "a JobSet", "a LeaderWorkerSet", "variables"],
)
def test_ranks_of_a_job(manifest: Manifest, name: str, label: tuple[str, str] | None) -> None:
    assert job(manifest) == RankedJob(name, label)


@pytest.mark.parametrize(
    "manifest",
    [
        pod(container(gpus=1)),
        labelled({"app": "inference"}),
        labelled({JOB: "train"}, WORLD_SIZE="1"),
        labelled({GROUP: "f1"}, {SIZE: "1"}),
        labelled({GROUP: "f1"}),
        pod(with_env(MASTER_ADDR="a-0")),
        pod(with_env(MASTER_ADDR="a-0", WORLD_SIZE="1")),
        pod(with_env(MASTER_ADDR="localhost", WORLD_SIZE="8")),
        pod(with_env(WORLD_SIZE="8")),
    ],
)
def test_no_sign_of_other_ranks(manifest: Manifest) -> None:
    assert job(manifest) is None


def test_a_world_size_that_is_not_known_may_be_above_one() -> None:
    source = {"name": "WORLD_SIZE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
    env = [{"name": "MASTER_ADDR", "value": "a-0"}, source]
    assert job(pod(container(gpus=1, env=env))) == RankedJob("a job (MASTER_ADDR)")


def test_a_channel_of_a_compute_domain_is_a_sign_and_another_claim_is_none() -> None:
    uses = container(gpus=1)
    uses["resources"]["claims"] = [{"name": "c"}]
    claims = [{"name": "c", "resourceClaimTemplateName": "domain"}]
    manifest = pod(uses, resourceClaims=claims)
    assert job(manifest, c=of_class(CHANNEL)) == RankedJob("the ComputeDomain of resource claim domain")
    assert job(manifest, c=of_class("roce.example.com")) is None
    unread = RankedJob("a ComputeDomain, if resource claim domain is a channel of one")
    assert job(manifest) == job(manifest, c=None) == unread


def of_class(name: str) -> ClaimSpec:
    requests = [{"name": "r", "exactly": {"deviceClassName": name}}]
    return msgspec.convert({"devices": {"requests": requests}}, ClaimSpec)

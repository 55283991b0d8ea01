"""The signs that a pod is one rank of a job whose other ranks run in pods of their own.

NCCL joins such pods over the network, also on one node, unless they share namespaces (profile ``node-peers``). A number
of replicas is no sign: the replicas of a Deployment for inference do not work together.
"""

from collections.abc import Iterable, Mapping

import msgspec

from webhook.decisions.claims.pod import EXTENDED, claim_names, used_entries
from webhook.objects.claims import ClaimSpec
from webhook.objects.pod import Container, EnvVar, Pod
from webhook.words import names
from webhook.words.printable import fitted

# PyTorchJob, MPIJob and others: kubeflow/training-operator pkg/apis/kubeflow.org/v1/common_types.go.
TRAINING_JOB = "training.kubeflow.org/job-name"
# sigs.k8s.io/jobset api/jobset/v1alpha2.
JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOB_LABELS: Mapping[str, str] = {
    TRAINING_JOB: "training job",
    JOBSET_NAME: "JobSet",
    # The pods of one replica of a LeaderWorkerSet have one value: sigs.k8s.io/lws api/leaderworkerset/v1.
    names.LWS_GROUP: "LeaderWorkerSet group",
}
"""Labels whose values are the same on all pods of a job, with the kind of the job."""
# The class of NVIDIA's driver for channels of a ComputeDomain: its chart, templates/deviceclass-*.yaml.
_CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
_ADDRESS = "MASTER_ADDR"
WORLD_SIZES = ("WORLD_SIZE", "PET_NNODES")
"""Variables with the number of ranks or of their pods; 1 says that there is no other."""
_THIS_POD = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 - compared, not bound


class RankedJob(msgspec.Struct, frozen=True):
    """A job of which a pod is one rank."""

    name: str
    """The job in words, such as ``training job train``."""
    label: tuple[str, str] | None = None
    """A label that all pods of the job have; ``None`` if none is known, so that nobody can tell which pods they are."""


def job_label(pod: Pod) -> tuple[str, str] | None:
    """Return the label by which a pod is part of a job, with its value; ``None`` if it has none."""
    labels = pod.labels
    return next(((key, labels[key]) for key in JOB_LABELS if labels.get(key)), None)


def job_of(pod: Pod, containers: Iterable[Container], specs: Mapping[str, ClaimSpec | None]) -> RankedJob | None:
    """Return the job of which the pod is one rank of several; ``None`` without a sign of other ranks.

    Args:
        pod: The pod.
        containers: Its containers with GPUs.
        specs: The specs of its resource claims by entries; ``None``, or no value, for a claim that was not read.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    env: dict[str, EnvVar] = {variable.name: variable for each in containers for variable in each.env or ()}
    sizes = [_size(env[name]) for name in WORLD_SIZES if name in env]
    label = job_label(pod)
    if label and 1 not in sizes and not (label[0] == names.LWS_GROUP and not _is_several(pod.annotations)):
        return RankedJob(fitted(f"{JOB_LABELS[label[0]]} {label[1]}"), label)
    address = env.get(_ADDRESS)
    if address and not any(map(address.is_literal, _THIS_POD)) and any(size != 1 for size in sizes):
        size = next((f" with {name}={env[name].value}" for name in WORLD_SIZES if name in env and env[name].value), "")
        return RankedJob(fitted(f"a job ({_ADDRESS}{size})"))
    return _by_channel(pod, specs)


def _size(variable: EnvVar) -> int | None:
    """Return the number that a variable gives; ``None`` if it is not known here."""
    text = variable.value if variable.value_from is None else None
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 6 else None


def _is_several(annotations: Mapping[str, str]) -> bool:
    return annotations.get(names.LWS_SIZE) not in (None, "1")


def _by_channel(pod: Pod, specs: Mapping[str, ClaimSpec | None]) -> RankedJob | None:
    if not pod.has_claims:
        return None
    named = claim_names(pod)
    for entry in used_entries(pod) - {EXTENDED}:
        spec = specs.get(entry)
        shown = fitted(named.templates.get(entry) or named.by_entry.get(entry) or entry)
        if spec is None:
            return RankedJob(f"a ComputeDomain, if resource claim {shown} is a channel of one")
        requests = (spec.devices.requests if spec.devices else None) or ()
        if any(one.device_class_name == _CHANNEL_CLASS for request in requests for one in request.alternatives):
            return RankedJob(f"the ComputeDomain of resource claim {shown}")
    return None

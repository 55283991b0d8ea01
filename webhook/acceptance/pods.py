"""What is tried with pods, where a cluster is there: each profile, and the same pod without injection.

The pods run ``gpu-topology verify`` of the image that the webhook is in, and print its report.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from webhook.acceptance.model import Step
from webhook.model import names

PATIENCE = 120
"""Seconds until a pod has to have ended: it waits for its cards, and measures two."""
_PREFIX = "gpu-topology-acceptance"
_CALL_SECONDS = 30.0


class PodCase(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one kind."""

    name: str
    """Of the pod, behind a prefix."""
    profile: str
    is_injected: bool = True

    @property
    def pod(self) -> str:
        """The name of the pod."""
        return f"{_PREFIX}-{self.name}"

    @property
    def report(self) -> str:
        """Where the report of its log is, below the folder of the run."""
        return f"pods/{self.name}/report.json"

    @property
    def admitted(self) -> str:
        """Where the pod is as the API server has it."""
        return f"pods/{self.name}/pod.json"


EXCLUSIVE = PodCase(name="exclusive", profile="exclusive")
CONTROL = PodCase(name="not-injected", profile="exclusive", is_injected=False)
CASES = (EXCLUSIVE, CONTROL)


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods run."""

    namespace: str
    """One that has opted in."""
    image: str
    """Of the webhook: it has the command ``gpu-topology``."""
    options: tuple[str, ...] = ()
    """By which kubectl finds the cluster."""


def manifest_of(case: PodCase, cluster: Cluster) -> Mapping[str, Any]:
    """The pod of a case."""
    labels = {} if case.is_injected else {names.INJECTION: "disabled"}
    container = {
        "name": "main",
        "image": cluster.image,
        "command": ["gpu-topology", "verify", "--output", "json"],
        "resources": {"limits": {"nvidia.com/gpu": "2"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": case.pod,
            "namespace": cluster.namespace,
            "labels": labels,
            "annotations": {names.PROFILE: case.profile} if case.is_injected else {},
        },
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def pod_steps(case: PodCase, cluster: Cluster, folder: str) -> Sequence[Step]:
    """Create the pod, wait for its end, read what it said, and delete it.

    Args:
        case: The pod.
        cluster: Where it runs.
        folder: Of the run, absolute; the manifest is there.
    """
    kubectl = ("kubectl", *cluster.options, "--namespace", cluster.namespace)
    ended = "--for=jsonpath={.status.phase}=Succeeded"

    def step(name: str, says: str, *argv: str, seconds: float = _CALL_SECONDS, output: str = "") -> Step:
        where = f"pods/{case.name}/{output or name + '.txt'}"
        return Step(name=f"{case.name}-{name}", says=says, argv=(*kubectl, *argv), seconds=seconds, output=where)

    return (
        step("create", f"a pod: {case.name}", "create", "--filename", f"{folder}/{manifest_file(case)}"),
        step(
            "wait",
            "until it has ended",
            "wait",
            ended,
            f"--timeout={PATIENCE}s",
            f"pod/{case.pod}",
            seconds=PATIENCE + 10,
        ),
        step("log", "what it measured", "logs", case.pod, "--container=main", output="report.json"),
        step("pod", "the pod as it was admitted and bound", "get", "pod", case.pod, "--output=json", output="pod.json"),
        step("delete", "and it is deleted", "delete", "pod", case.pod, "--wait=false", "--ignore-not-found"),
    )


def manifest_file(case: PodCase) -> str:
    """Where the manifest is, below the folder of the run."""
    return f"pods/{case.name}/manifest.json"

"""What is tried with pods, where a cluster is there: each profile, and a pod without injection beside.

The pods run ``gpu-topology verify`` of the image that the webhook is in, and print its report.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tests.gpu.model import Step
from webhook.words import names

PATIENCE = 120
"""Seconds until a container has to have ended: it waits for its cards, and measures them."""
KUBERNETES, HAMI = "cluster/version.json", "cluster/hami.json"
"""Where the answers of kubectl about the versions are."""
_PREFIX = "gpu-topology-acceptance"
_CALL_SECONDS = 30.0
_SHARED, _PORT = "/shared", 7777
_MAIN = "main"

Object = Mapping[str, Any]


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods run."""

    namespace: str
    """One that has opted in."""
    image: str
    """Of the webhook: it has the command ``gpu-topology``."""
    options: tuple[str, ...] = ()
    """By which kubectl finds the cluster."""


class PodCase(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one kind. The container ``main`` of one of them prints the report."""

    name: str
    """Of that pod, behind a prefix."""
    objects: Callable[["PodCase", Cluster], Sequence[Object]]
    """Makes what is created."""

    @property
    def pod(self) -> str:
        """The name of the pod that reports."""
        return f"{_PREFIX}-{self.name}"

    @property
    def report(self) -> str:
        """Where its report is, below the folder of the run."""
        return f"pods/{self.name}/report.json"

    @property
    def admitted(self) -> str:
        """Where the pod is as the API server has it."""
        return f"pods/{self.name}/pod.json"

    @property
    def manifest(self) -> str:
        """Where the manifest is."""
        return f"pods/{self.name}/manifest.json"


def cluster_steps(cluster: Cluster) -> Sequence[Step]:
    """Which Kubernetes and which HAMi the pods meet."""
    kubectl = ("kubectl", *cluster.options)
    scheduler = "=".join(names.HAMI_SCHEDULER_LABEL)
    listed = ("get", "deployments", "--all-namespaces", f"--selector={scheduler}", "--output=json")
    return (
        Step(
            name="kubernetes",
            says="the version of Kubernetes",
            argv=(*kubectl, "version", "--output=json"),
            seconds=_CALL_SECONDS,
            output=KUBERNETES,
        ),
        Step(name="hami", says="the version of HAMi", argv=(*kubectl, *listed), seconds=_CALL_SECONDS, output=HAMI),
    )


def manifest_of(case: PodCase, cluster: Cluster) -> Object:
    """What kubectl is given."""
    return {"apiVersion": "v1", "kind": "List", "items": list(case.objects(case, cluster))}


def pod_steps(case: PodCase, cluster: Cluster, folder: str) -> Sequence[Step]:
    """Create the pods, wait for the end of the one that reports, read what it said, and delete them.

    Args:
        case: The pods.
        cluster: Where they run.
        folder: Of the run, absolute; the manifest is there.
    """
    kubectl = ("kubectl", *cluster.options, "--namespace", cluster.namespace)
    manifest, patience = f"{folder}/{case.manifest}", f"--timeout={PATIENCE}s"
    ended = "--for=jsonpath={.status.containerStatuses[?(@.name=='main')].state.terminated.reason}"

    def step(name: str, says: str, *argv: str, seconds: float = _CALL_SECONDS, output: str = "") -> Step:
        where = f"pods/{case.name}/{output or name + '.txt'}"
        return Step(name=f"{case.name}-{name}", says=says, argv=(*kubectl, *argv), seconds=seconds, output=where)

    return (
        step("create", f"pods: {case.name}", "create", "--filename", manifest),
        step("wait", "until it has ended", "wait", ended, patience, f"pod/{case.pod}", seconds=PATIENCE + 10.0),
        step("log", "what it measured", "logs", case.pod, f"--container={_MAIN}", output="report.json"),
        step("pod", "the pod as it was admitted and bound", "get", "pod", case.pod, "--output=json", output="pod.json"),
        step("delete", "and they are deleted", "delete", "--filename", manifest, "--wait=false", "--ignore-not-found"),
    )


def _one_container(profile: str) -> Callable[[PodCase, Cluster], Sequence[Object]]:
    """A pod with two cards; an empty profile: one that is not injected."""

    def objects(case: PodCase, cluster: Cluster) -> Sequence[Object]:
        return [_pod(case.pod, profile, [_container(cluster, _MAIN, 2)])]

    return objects


def _two_containers(case: PodCase, cluster: Cluster) -> Sequence[Object]:
    """A pod of two containers with a card each, which meet at a socket."""
    socket, shared = f"{_SHARED}/verify.sock", {"name": "shared", "mountPath": _SHARED}
    containers = [
        _container(cluster, _MAIN, 1, "--peer", socket, volumeMounts=[shared]),
        _container(cluster, "offers", 1, "--listen", socket, volumeMounts=[shared]),
    ]
    return [_pod(case.pod, "pod-peers", containers, volumes=[{"name": "shared", "emptyDir": {}}])]


def _two_pods(case: PodCase, cluster: Cluster) -> Sequence[Object]:
    """Two pods of a group with a card each, which meet at a Service."""
    other, group = f"{case.pod}-offers", {names.GROUP: case.pod}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": other},
        "spec": {"clusterIP": "None", "selector": {"app": other}, "ports": [{"port": _PORT}]},
    }
    offers = _container(cluster, _MAIN, 1, "--listen", f"0.0.0.0:{_PORT}")
    uses = _container(cluster, _MAIN, 1, "--peer", f"{other}:{_PORT}")
    return [
        service,
        _pod(other, "node-peers", [offers], labels={**group, "app": other}),
        _pod(case.pod, "node-peers", [uses], labels=group),
    ]


EXCLUSIVE = PodCase(name="exclusive", objects=_one_container("exclusive"))
CONTROL = PodCase(name="not-injected", objects=_one_container(""))
POD_PEERS = PodCase(name="pod-peers", objects=_two_containers)
NODE_PEERS = PodCase(name="node-peers", objects=_two_pods)
CASES = (EXCLUSIVE, CONTROL, POD_PEERS, NODE_PEERS)


def _pod(
    name: str, profile: str, containers: Sequence[Object], *, labels: Mapping[str, str] | None = None, **spec: Any
) -> Object:
    """A pod. Where two meet, either may start first."""
    ours = {} if profile else {names.INJECTION: "disabled"}
    annotations = {names.PROFILE: profile} if profile else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {**ours, **(labels or {})}, "annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": list(containers), **spec},
    }


def _container(cluster: Cluster, name: str, cards: int, *arguments: str, **fields: Any) -> Object:
    return {
        "name": name,
        "image": cluster.image,
        "command": ["gpu-topology", "verify", *(arguments or ("--output", "json"))],
        "env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}],
        "resources": {"limits": {"nvidia.com/gpu": str(cards)}},
        **fields,
    }

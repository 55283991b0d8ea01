"""What a person does to a cluster with kubectl, and what is to be said of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.control_plane.kubectl import Kubectl
from tests.insight.analyze.clusters import Cluster, cards, h20
from tests.insight.analyze.faults import OURS, REFUSED, Expected
from webhook.objects.lease import micro_time

WEBHOOK = "gpu-topology-webhook"
AGENTS = "gpu-topology-nodes"
OPTED_IN = "gpu.topology/injection=enabled"
CONFIGURATIONS = "mutatingwebhookconfigurations"


class Person:
    """Someone with a terminal and the rights of an administrator."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl

    def do(self, *arguments: str, manifest: Any = None) -> str:
        """What kubectl prints; it has to succeed."""
        done = self._kubectl(*arguments, manifest=manifest)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def patch(self, kind: str, name: str, change: Any, *, namespace: str = "default", how: str = "merge") -> None:
        self.do("patch", kind, name, "-n", namespace, f"--type={how}", "-p", json.dumps(change))

    def get(self, kind: str, name: str, *, namespace: str = "default") -> Any:
        return json.loads(self.do("get", kind, name, "-n", namespace, "-o", "json"))

    def create(self, manifest: Any) -> None:
        self.do("create", "-f", "-", manifest=manifest)

    def namespace(self, name: str, *marks: str) -> None:
        """A namespace with these labels."""
        self.do("create", "namespace", name)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
        self.do("apply", "-f", "-", manifest=account)  # one of an earlier namespace of this name may be there
        for mark in marks:
            self.do("label", "namespace", name, mark)


@dataclass(frozen=True)
class ByHand:
    """Something that a person does."""

    name: str
    do: Callable[[Person], None]
    expected: Expected
    node: str = ""
    """A node, in order, that has to be there before."""
    registers: bool = False
    """Whether it changes how the webhook is registered: one of those at a time."""
    starts: bool = False
    """Whether it changes how one pod starts: one of those at a time."""

    def prepare(self, cluster: Cluster) -> None:
        if self.node:
            cluster.add_node(h20(self.node))


def no_authority(person: Person) -> None:
    change = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    person.patch(CONFIGURATIONS, WEBHOOK, change, how="json")


def no_bindings(person: Person) -> None:
    person.patch(CONFIGURATIONS, WEBHOOK, [{"op": "remove", "path": "/webhooks/1"}], how="json")


def not_registered(person: Person) -> None:
    person.do("delete", CONFIGURATIONS, WEBHOOK)


def asked_once(person: Person) -> None:
    change = [{"op": "replace", "path": "/webhooks/0/reinvocationPolicy", "value": "Never"}]
    person.patch(CONFIGURATIONS, WEBHOOK, change, how="json")


def hami_first(person: Person) -> None:
    """HAMi's chart released again, under a name that sorts before ours."""
    found = person.get(CONFIGURATIONS, "hami-webhook")
    person.create({**found, "metadata": {"name": "another-hami-webhook"}})


def second_scheduler(person: Person) -> None:
    """HAMi's Deployment, copied into a namespace of its own."""
    person.namespace("hami-two")
    found = person.get("deployment", "hami-scheduler", namespace="kube-system")
    metadata = {"name": "second", "namespace": "hami-two", "labels": found["metadata"]["labels"]}
    found["spec"]["template"]["spec"]["serviceAccountName"] = "second"
    person.create({key: found[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": metadata})


def typing_error(person: Person) -> None:
    person.namespace("lab", OPTED_IN)
    person.do("annotate", "namespace", "lab", "gpu.topology/min-bandwidth=much")


def not_allowed(person: Person) -> None:
    person.namespace("serve", OPTED_IN)
    person.do("annotate", "namespace", "serve", "gpu.topology/profile=node-peers")
    person.do("label", "namespace", "serve", "gpu.topology/allow-host-ipc=true")


def forgotten_label(person: Person) -> None:
    person.namespace("students")
    limits = {"nvidia.com/gpu": "2"}
    spec = {
        "schedulerName": "hami-scheduler",
        "containers": [{"name": "a", "image": "x", "resources": {"limits": limits}}],
    }
    overrides = json.dumps({"apiVersion": "v1", "spec": spec})
    person.do("run", "homework", "-n", "students", "--image=x", "--restart=Never", f"--overrides={overrides}")


def agent_removed(person: Person) -> None:
    person.do("delete", "configmap", "gpu-topology-bare", "-n", AGENTS)
    person.do("delete", "lease", "gpu-topology-bare", "-n", AGENTS)


def agent_stopped(person: Person) -> None:
    renewed = micro_time(datetime.now(UTC) - timedelta(hours=5))
    person.patch("lease", "gpu-topology-quiet", {"spec": {"renewTime": renewed}}, namespace=AGENTS)


def lease_deleted(person: Person) -> None:
    person.do("delete", "lease", "gpu-topology-voiceless", "-n", AGENTS)


def topology_edited(person: Person) -> None:
    person.patch("configmap", "gpu-topology-edited", {"data": {"topology.json": "{"}}, namespace=AGENTS)


def owner_removed(person: Person) -> None:
    """As a restore from a backup leaves it."""
    change = [{"op": "remove", "path": "/metadata/ownerReferences"}]
    person.patch("configmap", "gpu-topology-restored", change, namespace=AGENTS, how="json")


def peer_to_peer_off(person: Person) -> None:
    """A running pod as ``kubectl get`` prints it, edited and created again on another node."""
    found = person.get("pod", "pair", namespace="team-a")
    metadata = found["metadata"]
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        metadata.pop(key, None)
    metadata["name"] = "copy"
    given = "".join(f"{uuid},NVIDIA,97871,100:" for uuid in cards("copied-to", 0, 1))
    metadata["annotations"] |= {"hami.io/vgpu-node": "copied-to", "hami.io/vgpu-devices-allocated": f"{given};"}
    found["spec"]["nodeName"] = "copied-to"
    found["spec"]["containers"][0].setdefault("env", []).append({"name": "NCCL_P2P_DISABLE", "value": "1"})
    found.pop("status")
    person.create(found)


def slice_on_a_switch(person: Person) -> None:
    """A notebook with a part of a card, where whole jobs should run."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000"}
    containers = [{"name": "a", "image": "x", "resources": {"limits": limits}}]
    spec = {"schedulerName": "hami-scheduler", "nodeName": "mixed", "containers": containers}
    overrides = json.dumps({"apiVersion": "v1", "spec": spec})
    person.do("run", "notebook", "-n", "team-a", "--image=x", "--restart=Never", f"--overrides={overrides}")
    given = f"hami.io/vgpu-devices-allocated={cards('mixed', 3)[0]},NVIDIA,8000,0:;"
    person.do("annotate", "pod", "notebook", "-n", "team-a", "hami.io/vgpu-node=mixed", given)


def no_replica(person: Person) -> None:
    """The chart of a release whose image cannot be pulled. No controller works here, so nothing becomes ready."""
    labels = {"app.kubernetes.io/name": "gpu-topology-webhook", "app.kubernetes.io/component": "webhook"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "webhook", "image": "x"}]}}
    metadata = {"name": "gpu-topology-webhook", "namespace": "gpu-topology", "labels": labels}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    person.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


def refused_job(person: Person) -> None:
    """What the controller of Jobs writes about a pod that a webhook refuses."""
    person.namespace("refusing")
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    about = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "refusing", "name": "train"}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "train.1", "namespace": "refusing"},
        "involvedObject": about,
        "reason": "FailedCreate",
        "message": f"Error creating: {REFUSED}",
        "source": {"component": "job-controller"},
        "type": "Warning",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    person.create(event)
    person.create(event | {"metadata": {"name": "train.2", "namespace": "refusing"}, "message": "something else"})


def _start(person: Person, state: dict[str, Any]) -> None:
    """What the kubelet writes about the remap container of a pod."""
    program = {"name": "gpu-topology-remap", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    status = {"status": {"initContainerStatuses": [program | {"state": state}]}}
    change = json.dumps(status)
    person.do("patch", "pod", "train", "-n", "team-a", "--subresource=status", "--type=merge", "-p", change)


def image_missing(person: Person) -> None:
    _start(person, {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}})


def other_gpus(person: Person) -> None:
    times = {"startedAt": "2026-11-25T10:00:00Z", "finishedAt": "2026-11-25T10:00:01Z"}
    _start(person, {"terminated": {"exitCode": 11, "message": "GPU-7 is not there"} | times})


def nothing_wrong(person: Person) -> None:
    """What administrators do all day."""
    person.do("cordon", "left-alone")
    person.do("taint", "node", "left-alone", "maintenance=soon:NoSchedule")
    person.do("create", "deployment", "web", "-n", "team-a", "--image=nginx")
    person.do("scale", "deployment", "web", "-n", "team-a", "--replicas=3")
    person.do("annotate", "pod", "web", "-n", "team-a", "example.com/owner=me")
    person.do("label", "namespace", "team-a", "cost-centre=7")
    person.do("uncordon", "left-alone")


def _ours(code: str) -> Expected:
    return frozenset({(code, OURS)})


def _node(code: str, name: str) -> Expected:
    return frozenset({(code, f"Node {name}")})


BY_HAND = (
    ByHand("an authority removed", no_authority, _ours("GT842"), registers=True),
    ByHand("the webhook of Bindings removed", no_bindings, _ours("GT841"), registers=True),
    ByHand("the registration deleted", not_registered, _ours("GT840"), registers=True),
    ByHand("asked once", asked_once, _ours("GT847"), registers=True),
    ByHand("HAMi released again", hami_first, _ours("GT846"), registers=True),
    ByHand("a second scheduler", second_scheduler, _ours("GT820"), registers=True),
    ByHand("a typing error", typing_error, frozenset({("GT191", "Namespace lab")})),
    ByHand("a profile without its permission", not_allowed, frozenset({("GT190", "Namespace serve")})),
    ByHand(
        "a forgotten label",
        forgotten_label,
        frozenset((code, "Pod students/homework") for code in ("GT103", "GT155", "GT210")),
    ),
    ByHand("an agent removed", agent_removed, _node("GT720", "bare"), node="bare"),
    ByHand("an agent stopped", agent_stopped, _node("GT721", "quiet"), node="quiet"),
    ByHand("a Lease deleted", lease_deleted, _node("GT721", "voiceless"), node="voiceless"),
    ByHand("a topology edited", topology_edited, _node("GT722", "edited"), node="edited"),
    ByHand("an owner removed", owner_removed, _node("GT720", "restored"), node="restored"),
    ByHand("P2P switched off", peer_to_peer_off, frozenset({("GT412", "Pod team-a/copy")}), node="copied-to"),
    ByHand("a slice on a switch", slice_on_a_switch, _node("GT244", "mixed"), node="mixed"),
    ByHand(
        "no replica of the webhook",
        no_replica,
        frozenset({("GT852", "Deployment gpu-topology/gpu-topology-webhook")}),
    ),
    ByHand("a Job that is refused", refused_job, frozenset({("GT854", "Job refusing/train")})),
    ByHand("an image that is missing", image_missing, frozenset({("GT365", "Pod team-a/train")}), starts=True),
    ByHand("a pod with other GPUs", other_gpus, frozenset({("GT367", "Pod team-a/train")}), starts=True),
    ByHand("nothing wrong", nothing_wrong, frozenset(), node="left-alone"),
)

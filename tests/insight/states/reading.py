"""The full states of ``tests/cases/states``: a pod with its node, its GPUs and its namespace, as a cluster has them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import jsonpatch
import msgspec
import yaml
from msgspec.structs import replace as replace_state

from tests.control_plane.hami.nodes import node_manifest
from tests.hardware.topology import machines
from tests.insight.analyze.clusters import AT, READ, Object, node, registration, scheduler
from tests.insight.explain.situations import decoded, known, on
from tests.judge import HAMI_2_9, policy
from tests.pods import Manifest, pod
from webhook.cli.workload import apply_in_place
from webhook.cluster.snapshot.documents import Documents
from webhook.cluster.snapshot.model import KnownPod, Setting, Snapshot, read_snapshot
from webhook.decisions.admit.admission import admit
from webhook.decisions.bind.binding import begin, finish
from webhook.decisions.bind.pod_to_bind import PodToBind
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.selection.choice import Choice, select
from webhook.hardware.topology.selection.request import Constraints, Request
from webhook.insight.explain.explain import explain
from webhook.insight.explain.findings import Change, Judgement, Report
from webhook.insight.explain.pods import PodReports, ToldNode
from webhook.objects.binding import Binding, Target
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Metadata, Namespace, Pod
from webhook.words.catalogue.remedies import Remedy
from webhook.words.outcome import Outcome

STATES = Path(__file__).parents[2] / "cases" / "states" / "states.yaml"
TEAM, NODE = "team-a", "node-1"
_VERIFIED = {"terminated": {"exitCode": 0}}


class Word(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the commands say of a pod."""

    word: str
    code: str = ""


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pod with everything that decides: see the head of ``states.yaml``."""

    name: str
    machine: str = ""
    gpus: list[Any] = []
    admitted: bool = False
    start: Any = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    env: dict[str, str] = {}
    args: list[str] = []
    resources: dict[str, Any] = {}
    namespace: dict[str, str] = {}
    others: list["State"] = []
    word: str = ""
    code: str = ""
    limit: str = ""
    ends: Word = Word(word="yes")
    """The word after the remedies."""

    @property
    def given(self) -> Sequence[Sequence[int]]:
        """The GPUs of each container."""
        return self.gpus if self.gpus and isinstance(self.gpus[0], list) else [self.gpus]

    def manifest(self) -> Manifest:
        """The pod as its author wrote it."""
        env = [{"name": name, "value": value} for name, value in self.env.items()]
        containers = []
        for number, given in enumerate(self.given):
            limits = self.resources or {"nvidia.com/gpu": len(given) or 2}
            made: Manifest = {"name": f"train-{number}" if number else "train", "image": "i", "env": env}
            containers.append(made | {"args": self.args, "resources": {"limits": limits}})
        made = pod(*containers, labels=self.labels, annotations=dict(self.annotations))
        made["metadata"] |= {"name": self.name.replace(" ", "-").lower()}
        return made


@cache
def states() -> Sequence[State]:
    return msgspec.convert(yaml.safe_load(STATES.read_text(encoding="utf-8")), list[State])


def team(keys: Mapping[str, str]) -> Namespace:
    """The namespace, opted in, with these keys: permissions and the opt-in are labels, options annotations."""
    labels = {key: value for key, value in keys.items() if "/allow-" in key or key.endswith("/injection")}
    options = {key: value for key, value in keys.items() if key not in labels}
    return Namespace(TEAM, {"gpu.topology/injection": "enabled"} | labels, options)


def admission(manifest: Manifest, namespace: Namespace) -> Outcome:
    decoded = msgspec.json.decode(to_json(manifest), type=Pod)
    return admit(decoded, namespace, policy(), HAMI_2_9)


def live(state: State, manifest: Manifest, namespace: Namespace) -> Object:
    """The pod as the API server has it: admitted, given its GPUs, bound and started, as far as the state says."""
    if state.admitted:
        manifest = apply_in_place(msgspec.json.decode(to_json(manifest)), admission(manifest, namespace).operations)
    if state.gpus:
        gpus = _named(state.machine).gpus
        uuids = [[gpus[index].uuid for index in each] for each in state.given]
        manifest = on(manifest, NODE, *uuids)
        if state.admitted:
            manifest = _told(manifest, namespace, state)
    manifest["metadata"] |= {"uid": f"uid-{state.name}"}
    return manifest | {"status": _status(state)}


def _told(manifest: Manifest, namespace: Namespace, state: State) -> Manifest:
    """The pod with what the webhook answers to its Binding."""
    pod = decoded(manifest)
    binding = Binding(Metadata(name=pod.display_name, namespace=TEAM, uid=""), Target(NODE))
    begun = begin(decoded(manifest | {"spec": manifest["spec"] | {"nodeName": None}}), binding, namespace, policy())
    assert isinstance(begun, PodToBind), begun
    written = finish(begun, policy(), known(_named(state.machine))).annotations
    annotations = manifest["metadata"]["annotations"] | written
    return manifest | {"metadata": manifest["metadata"] | {"annotations": annotations}}


def _status(state: State) -> Object:
    if not state.gpus:
        return {"phase": "Pending"}
    if state.start is None:
        return {"phase": "Running"}
    ended = _VERIFIED if state.start == "verified" else {"terminated": state.start}
    return {"phase": "Running", "initContainerStatuses": [{"name": "gpu-topology-remap", "state": ended}]}


def snapshot(state: State, pods: Sequence[Object], namespace: Namespace) -> Snapshot:
    """The cluster: the node, the pods, the namespace, our registration and HAMi."""
    metadata = {"name": TEAM, "labels": namespace.labels, "annotations": namespace.annotations}
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
        registration(),
        scheduler(),
    ]
    objects += _node(state.machine)
    about: Object = {"apiVersion": "gpu.topology/v1", "kind": "ClusterSnapshot", "metadata": {"name": "cluster"}}
    about |= {"at": AT.isoformat(), "kubernetes": "v1.33.2", "read": list(READ), "unread": []}
    documents = Documents()
    documents.add([*objects, *pods, about])
    return read_snapshot(documents.others, documents.pods, Setting(policy=policy(), is_configured=False))


def _node(machine: str) -> list[Object]:
    if machine == "none":
        return [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "uid": "uid"}}]
    if machine == "without_scores":
        found: Object = {"apiVersion": "v1", "kind": "Node"} | node_manifest(_named(machine))
        found["metadata"]["annotations"].pop("hami.io/node-nvidia-score", None)
        return [found]
    return node(_named(machine))


def _named(machine: str) -> NodeTopology:
    machine = "h20" if machine in ("none", "without_scores") else machine
    found: NodeTopology = getattr(machines, machine)()
    return replace(found, node=NODE)


def known_pod(found: Snapshot, name: str) -> KnownPod:
    known = found.pod(TEAM, name)
    assert known is not None, name
    return known


@dataclass(frozen=True)
class Scene:
    """A state, whose pod, namespace and GPUs remedies change."""

    state: State
    manifest: Manifest
    """The pod as its author writes it."""
    namespace: Namespace
    others: tuple[Manifest, ...]

    @classmethod
    def of(cls, state: State) -> Self:
        return cls(state, state.manifest(), team(state.namespace), tuple(each.manifest() for each in state.others))

    def admission(self) -> Outcome:
        return admission(self.manifest, self.namespace)

    def report(self, *, shows_webhook: bool = True) -> Report:
        pods = [live(self.state, self.manifest, self.namespace)]
        for each, manifest in zip(self.state.others, self.others, strict=True):
            other = replace_state(each, admitted=self.state.admitted, start=self.state.start)
            pods.append(live(other, manifest, self.namespace))
        found = snapshot(self.state, pods, self.namespace)
        reports = PodReports(found)
        evidence = reports.evidence(known_pod(found, self.manifest["metadata"]["name"]), ToldNode(""))
        return explain(replace_state(evidence, shows_webhook=shows_webhook))

    def judgement(self, *, shows_webhook: bool = True) -> Judgement:
        return self.report(shows_webhook=shows_webhook).judgement

    def changed(self, change: Change) -> Self:
        """After the change: the pod is created anew. The planner chooses where the pod requires links."""
        patch = json.loads(msgspec.json.encode(change.patch))
        if change.target is Remedy.NAMESPACE:
            keys = {"labels": dict(self.namespace.labels), "annotations": dict(self.namespace.annotations)}
            metadata = jsonpatch.apply_patch({"metadata": keys}, patch)["metadata"]
            return self._anew(replace(self, namespace=Namespace(TEAM, metadata["labels"], metadata["annotations"])))
        every = [jsonpatch.apply_patch(each, patch) for each in (self.manifest, *self.others)]
        return self._anew(replace(self, manifest=every[0], others=tuple(every[1:])))

    def _anew(self, scene: Self) -> Self:
        is_admitted = bool(scene.admission().operations)
        gpus = scene.state.gpus
        if "gpu.topology/require-nvlink" in scene.manifest["metadata"]["annotations"]:
            request = Request(count=len(gpus), constraints=Constraints(require_nvlink=True))
            choice = select(_named(scene.state.machine), request)
            assert isinstance(choice, Choice), choice
            gpus = list(choice.gpus)
        start = "verified" if is_admitted else scene.state.start
        return replace(scene, state=replace_state(scene.state, admitted=is_admitted, gpus=gpus, start=start))

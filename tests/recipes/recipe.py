"""One recipe: a folder with a manifest and where it runs, put through ``inject``, the Binding, the start, ``explain``.

``manifest.yaml`` is what a person writes. ``situation.yaml`` says where it runs: ``namespace`` (labels, annotations),
``cluster`` (versions), ``config`` (of the webhook), ``machine`` (one of ``tests.hardware.topology.machines``) or
``register`` (HAMi's annotations of a Node), ``allocated``, HAMi's annotation for each pod by the name of its owner,
``claimed``, the GPUs that each entry of ``spec.resourceClaims`` was given, by the name of the owner too, and
``passed_by``, the accounts of schedulers whose Bindings do not reach the webhook.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.hardware.topology import machines
from tests.judge import HAMI_2_9, TEAM_A, FixedState, load_optional, policy
from tests.programs.remap.test_whole_way import environment
from webhook.cli.workload import Injected, Injection, apply_in_place, inject_manifest
from webhook.cluster.files.claim_manifests import claim_objects
from webhook.decisions.bind.binding import begin, finish
from webhook.decisions.bind.pod_to_bind import PodToBind
from webhook.decisions.bind.resolution import peer_devices
from webhook.decisions.claims.allocations import NOTHING_GIVEN, GivenGpus, given_gpus
from webhook.decisions.claims.evidence import KnownClaims
from webhook.decisions.claims.slices import Pools, PublishedDevice, SlicePart
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.request.assigned_node import node_of
from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.readers.hami import read_hami
from webhook.insight.explain.evidence import BindingReviews, Evidence, group_of
from webhook.insight.explain.explain import explain
from webhook.insight.explain.findings import Report
from webhook.objects.binding import Binding, BindOutcome, Target
from webhook.objects.claims import (
    AllocatedDevices,
    ClaimAllocation,
    ClaimSpec,
    ClaimStatus,
    Consumer,
    ObjectMetadata,
    ResourceClaim,
    Result,
    decode_template,
)
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Metadata, Namespace, Pod
from webhook.words.version import Version

Manifest = dict[str, Any]
DRIVER = "gpu.nvidia.com"


class Recipe:
    """A recipe in its situation; every step is taken when it is asked for.

    Args:
        folder: The one of the recipe.
    """

    def __init__(self, folder: Path) -> None:
        self.text = (folder / "manifest.yaml").read_text()
        situation = load_optional(folder / "situation.yaml", {})
        self._situation: Mapping[str, Any] = situation
        self.policy = policy(**situation.get("config", {}))
        self.cluster = _cluster(situation.get("cluster"))

    @cached_property
    def injection(self) -> Injection:
        """What ``gpu-topology inject`` makes of the manifest."""
        names = {one.get("metadata", {}).get("namespace", "default") for one in yaml.safe_load_all(self.text)}
        state = FixedState({name: self.namespace(name) for name in names}, self.cluster)
        return inject_manifest(self.text, "manifest.yaml", self.policy, state)

    def namespace(self, name: str) -> Namespace:
        """The namespace of a pod; opted in unless the situation says otherwise."""
        found = self._situation.get("namespace", {})
        return Namespace(name, found.get("labels", dict(TEAM_A.labels)), found.get("annotations", {}))

    @cached_property
    def sources(self) -> Sources:
        """What is known of the node."""
        if "register" in self._situation:
            register, score = (self._situation["register"].get(key) for key in ("gpus", "scores"))
            topology = read_hami(register, score, node="gpu-node", source="Node gpu-node")
            return Sources(annotated=KnownNode(topology, origin=Origin.HAMI))
        return Sources(published=KnownNode(self._machine, origin=Origin.AGENT))

    @property
    def node(self) -> str:
        """The node to which the scheduler gives the pods."""
        return "gpu-node" if "register" in self._situation else self._machine.node

    @property
    def _machine(self) -> NodeTopology:
        machine: NodeTopology = getattr(machines, self._situation.get("machine", "h20"))()
        return machine

    def one(self, owner: str) -> Injected:
        """What became of the pods of an object that asks for GPUs."""
        (found,) = (one for one in self.injection.templates if one.template.owner.name == owner and _asks(one.pod))
        return found

    def scheduled(self, owner: str) -> Manifest:
        """The pod after admission, with HAMi's choice of GPUs."""
        one = self.one(owner)
        pod = apply_in_place(msgspec.json.decode(one.pod), one.outcome.operations)
        metadata = pod.setdefault("metadata", {})
        metadata |= {"name": metadata.get("name", owner), "namespace": one.namespace, "uid": f"uid-{owner}"}
        chosen = self._situation.get("allocated", {}).get(owner)
        if chosen is not None:
            given = {"hami.io/vgpu-node": self.node, "hami.io/vgpu-devices-allocated": chosen}
            metadata["annotations"] = (metadata.get("annotations") or {}) | given
        made = [{"name": entry, "resourceClaimName": f"{owner}-{entry}"} for entry in self._claimed(owner)]
        pod |= {"status": {"resourceClaimStatuses": made}} if made else {}
        found: Manifest = pod
        return found

    def claims(self, owner: str) -> KnownClaims:
        """The claims of the pod as the scheduler allocated them, and what NVIDIA's driver publishes of the node."""
        reserved = [Consumer(resource="pods", name=owner, uid=f"uid-{owner}")]
        devices = {
            f"gpu-{gpu.minor}": PublishedDevice(gpu.uuid, is_whole=True, capacity={}) for gpu in self._machine.gpus
        }
        part = SlicePart(driver=DRIVER, pool=self.node, generation=1, slices=1, node=self.node, devices=devices)
        claims = {}
        for entry, gpus in self._claimed(owner).items():
            results = [
                Result(request="gpus", driver=DRIVER, pool=self.node, device=f"gpu-{self._machine.gpus[index].minor}")
                for index in gpus
            ]
            allocation = ClaimAllocation(devices=AllocatedDevices(results=results))
            claims[f"{owner}-{entry}"] = ResourceClaim(
                metadata=ObjectMetadata(name=f"{owner}-{entry}"),
                spec=self._spec_of_claim(owner, entry),
                status=ClaimStatus(allocation=allocation, reserved_for=reserved),
            )
        return KnownClaims(claims=claims, pools=Pools([part]))

    def _claimed(self, owner: str) -> Mapping[str, list[int]]:
        found: Mapping[str, list[int]] = self._situation.get("claimed", {}).get(owner, {})
        return found

    def _spec_of_claim(self, owner: str, entry: str) -> ClaimSpec:
        """What the template in the manifest asks for."""
        one = self.one(owner)
        documents = ((document, "manifest.yaml") for document in yaml.safe_load_all(self.text))
        templates = claim_objects(documents).templates
        asked = {claim["name"]: claim for claim in msgspec.json.decode(one.pod)["spec"]["resourceClaims"]}
        found = templates[one.namespace, asked[entry]["resourceClaimTemplateName"]]
        return decode_template(found, "manifest.yaml").spec.spec

    def _given(self, owner: str, pod: Pod) -> GivenGpus:
        if not self.policy.claims.enabled:
            return NOTHING_GIVEN
        known = self.claims(owner)
        return given_gpus(pod, known.claims, known.pools, self.policy.claims, node=self.node)

    def binding(self, owner: str) -> BindOutcome:
        """The answer to the Binding of the pod."""
        pod = decoded(self.scheduled(owner))
        metadata = Metadata(name=pod.display_name, namespace=self.one(owner).namespace, uid=f"uid-{owner}")
        given = self._given(owner, pod)
        begun = begin(pod, Binding(metadata, Target(self.node)), self._namespace_of(owner), self.policy, given)
        if not isinstance(begun, PodToBind):
            return begun
        others = self._others(owner) if begun.group else []  # the webhook lists them only then
        peers = peer_devices([decoded(other) for other in others], "", self.policy)
        return finish(begun, self.policy, self.sources, peers=peers)

    def bound(self, owner: str) -> Manifest:
        """The pod on its node, with what the Binding brought; without GPUs it stays as it is."""
        pod = self.scheduled(owner)
        if owner not in self._situation.get("allocated", {}) and not self._claimed(owner):
            return pod
        told = {} if self._reviews else self.binding(owner).annotations
        annotations = pod["metadata"].get("annotations", {}) | told
        metadata = pod["metadata"] | {"annotations": annotations}
        return pod | {"metadata": metadata, "spec": pod["spec"] | {"nodeName": self.node}}

    def variables(self, owner: str) -> dict[str, str]:
        """The environment of the remap container."""
        return environment(decoded(self.bound(owner)), self.node)

    def report(self, owner: str) -> Report:
        """What ``gpu-topology explain`` says of the pod."""
        manifest = self.bound(owner)
        pod = decoded(manifest)
        return explain(
            Evidence(
                pod=pod,
                namespace=self._namespace_of(owner),
                policy=self.policy,
                cluster=self.cluster,
                sources=self.sources,
                claims=self.claims(owner) if self.policy.claims.enabled else KnownClaims(),
                node=node_of(pod),
                others=tuple(decoded(other) for other in self._others(owner)),
                reviews=self._reviews,
            )
        )

    @property
    def _reviews(self) -> BindingReviews | None:
        if "passed_by" not in self._situation:
            return None
        return BindingReviews(configuration="gpu-topology-webhook", passed_by=tuple(self._situation["passed_by"]))

    def _namespace_of(self, owner: str) -> Namespace:
        return self.namespace(self.one(owner).namespace)

    def _others(self, owner: str) -> list[Manifest]:
        """The other pods of the group."""
        group = self._group(owner)
        owners = {one.template.owner.name for one in self.injection.templates if _asks(one.pod)} - {owner}
        return [self.scheduled(other) for other in sorted(owners) if group and self._group(other) == group]

    def _group(self, owner: str) -> str:
        return group_of(decoded(self.scheduled(owner)), self._namespace_of(owner), self.policy)


def decoded(manifest: Manifest) -> Pod:
    return msgspec.json.decode(to_json(manifest), type=Pod)


def _asks(pod: bytes) -> bool:
    """Whether some container asks for GPUs: the head of a Ray cluster does not."""
    return b"nvidia.com/gpu" in pod or b'"resourceClaims"' in pod


def _cluster(versions: Mapping[str, str] | None) -> ClusterFacts:
    if versions is None:
        return HAMI_2_9
    hami = Version.parse(versions["hamiVersion"], source="situation.yaml")
    return ClusterFacts(hami=hami, kubernetes=Version.parse(versions["kubernetesVersion"], source="situation.yaml"))

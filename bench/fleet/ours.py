"""Our planner before HAMi's scheduler: the real planner with the real world, which reads pods as JSON.

This module is the webhook, the API server and the kubelet: pods come with the gate, writes are applied at once, and
HAMi's allocation stands on the pods. Rounds come after each change, and from time to time while pods wait.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from bench.fleet.cluster import Cluster, Node, Pod
from bench.fleet.hami import Named, Policy, Result, Scheduler
from bench.placement import AT, GATE, allocation, applied, gated
from bench.placement import Cluster as Told
from tests.control_plane.hami.nodes import node_manifest
from webhook.decisions.allocation.model import WHOLE
from webhook.decisions.configuration import admit_policy, parse_config
from webhook.decisions.node_record import read_node
from webhook.decisions.place.planner import Planner
from webhook.decisions.place.world import World
from webhook.objects.pod import Namespace
from webhook.words.choices import Slices

EVERY_SECONDS = 10.0
"""Seconds between rounds in which nothing changes. The planner itself makes one each second; here pods wait a little
longer for what only time changes, and runs take a tenth of the time."""
MOST_ROUNDS = 1000
"""Rounds of one moment, after which the planner is taken to be running in a circle."""
MEASURED = 8
"""One of so many rounds is measured, because a look at the CPU time can take longer than a round."""
PIN = "nvidia.com/use-gpuuuid"
NAMESPACE = Namespace("team", {"gpu.topology/injection": "enabled"}, {})
Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a user may set."""

    objective: str = "bandwidth"
    violation: str = "warn"
    wait: str = "0s"
    slices: str = "off"


class Ours:
    """The planner, and HAMi with its defaults behind it.

    Args:
        cluster: The cluster.
        settings: The settings.
        seed: The seed of what is chance with HAMi.
    """

    def __init__(self, cluster: Cluster, settings: Settings, seed: int) -> None:
        self._cluster, self._settings = cluster, settings
        self._scheduler = Scheduler(cluster, Policy.BINPACK, seed, self)
        placement = {"mode": "on", "objective": settings.objective, "slices": settings.slices}
        config = parse_config({"placement": placement})
        world = World()
        planner = Planner(world, admit_policy(config, version="1.0.0"), namespaces=lambda _: NAMESPACE)
        self._told = Told(planner=planner, world=world, random=random.Random(0))  # noqa: S311 - not used
        self._pods: dict[str, Pod] = {}
        self._nodes = {node.name: node for node in cluster.nodes}
        self._card = {gpu.uuid: (node, gpu.index) for node in cluster.nodes for gpu in node.topology.gpus}
        self._is_new = False
        self._next_round: float | None = None
        self._rounds = 0
        self.cpu = 0.0
        """CPU seconds of the rounds."""
        for node in cluster.nodes:
            document = msgspec.json.encode(node_manifest(node.topology))
            world.node_changed(node.name, read_node(document, node.name, None), node.topology)

    def came(self, pods: Sequence[Pod]) -> None:
        """Creates the pods, with the gate if they wait for the planner."""
        for pod in pods:
            key, document = f"team/{pod.name}", self._document(pod)
            self._pods[key] = pod
            self._told.documents[key] = document
            self._tell(key)
            if not _gates(document):
                self._scheduler.add(pod)

    def ended(self, pods: Sequence[Pod]) -> None:
        """Deletes the pods."""
        self._cluster.give_back(pods)
        for pod in pods:
            self._told.tell(f"team/{pod.name}", None)
            del self._told.documents[f"team/{pod.name}"], self._pods[f"team/{pod.name}"]
        self._is_new = True
        self._scheduler.cards_are_free()

    def unlocked(self, node: Node) -> None:
        """Does nothing: the planner does not see the lock."""

    def told(self, pod: Pod, result: Result) -> None:
        """Writes the result of a scheduling cycle onto the pod, as HAMi and the scheduler do."""
        document = self._told.documents[f"team/{pod.name}"]
        if pod.node is not None:
            gpus = [pod.node.topology.gpus[card] for card in pod.cards]
            memory, cores = gpus[0].memory_mib * pod.job.memory // WHOLE, WHOLE if pod.job.is_whole else 0
            given = allocation(pod.node.name, [gpu.uuid for gpu in gpus], memory_mib=memory, cores=cores)
            document["metadata"]["annotations"] |= given
        if result is Result.BOUND and pod.node is not None:
            document["spec"]["nodeName"] = pod.node.name
        else:
            self._condition(document, {"type": "PodScheduled", "reason": result.value, "message": result.value})
        self._tell(f"team/{pod.name}")

    def act(self) -> None:
        """Makes rounds and has the scheduler run until nothing changes."""
        for _ in range(MOST_ROUNDS):
            self._scheduler.run()
            if not self._is_new:
                break
            self._is_new = False
            self._round()
        else:
            raise RuntimeError("the planner does not come to rest")
        if self._told.world.unbound and self._next_round is None:
            self._next_round = self._cluster.now + EVERY_SECONDS
            self._cluster.at(self._next_round, self._tick)

    def _tick(self) -> None:
        self._next_round, self._is_new = None, True

    def _round(self) -> None:
        now = self._cluster.now
        self._rounds += 1
        is_measured = self._rounds % MEASURED == 0
        began = time.process_time() if is_measured else 0.0
        writes = self._told.planner.decide(1000.0 + now, AT + timedelta(seconds=now))
        if is_measured:
            self.cpu += MEASURED * (time.process_time() - began)
        for write in writes:
            document = self._told.documents.get(write.key)
            if document is None or not (write.patch or write.condition):
                continue
            before = _gates(document), document["metadata"]["annotations"].get(PIN)
            applied(document, write)
            if write.condition:
                said = write.condition
                words = {"status": said.status, "reason": said.reason, "message": said.message}
                self._condition(document, {"type": "gpu.topology/Placed", **words})
            self._tell(write.key)
            self._pass_on(write.key, document, *before)

    def _pass_on(self, key: str, document: Object, gates: int, pin: str | None) -> None:
        """Has the scheduler see what changed of a pod past its gate."""
        pod, now = self._pods[key], document["metadata"]["annotations"].get(PIN)
        if "nodeName" in document["spec"] or _gates(document):
            return
        if gates:
            self._scheduler.add(pod, self._named(now))
        elif now != pin:
            self._scheduler.limit(pod, self._named(now))

    def _named(self, pin: str | None) -> Named | None:
        if pin is None:
            return None
        found = [self._card[uuid] for uuid in pin.split(",")]
        return found[0][0], tuple(sorted(card for _, card in found))

    def _tell(self, key: str) -> None:
        document = self._told.documents[key]
        metadata = document["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        self._told.tell(key, document)
        self._is_new = True

    @staticmethod
    def _condition(document: Object, condition: Object) -> None:
        others = [each for each in document["status"].get("conditions", []) if each["type"] != condition["type"]]
        document["status"]["conditions"] = [*others, {"status": "False", **condition}]

    def _document(self, pod: Pod) -> Object:
        document = self._of_whole_cards(pod) if pod.job.is_whole else self._of_slices(pod)
        created = AT + timedelta(seconds=int(pod.job.at))
        document["metadata"]["creationTimestamp"] = created.strftime("%Y-%m-%dT%H:%M:%SZ")
        return document

    def _of_slices(self, pod: Pod) -> Object:
        """Returns a pod that is not injected; gate and label it has only if it waits for the planner."""
        document = gated(pod.name, pod.job.cards, {})
        limits, metadata = document["spec"]["containers"][0]["resources"]["limits"], document["metadata"]
        del limits["nvidia.com/gpucores"], metadata["annotations"]["gpu.topology/injected"]
        limits["nvidia.com/gpumem-percentage"] = pod.job.memory
        if self._settings.slices != Slices.ON:
            del document["spec"]["schedulingGates"], metadata["labels"]["gpu.topology/placement"]
        return document

    def _of_whole_cards(self, pod: Pod) -> Object:
        options = {"on-violation": self._settings.violation, "place-wait": self._settings.wait}
        together = len(pod.job.locks)
        if together > 1:
            options |= {"group-size": str(together), "colocate": "preferred"}
        document = gated(pod.name, pod.job.cards, options)
        if together > 1:
            group = f"job-{pod.job.number}"
            document["metadata"]["labels"]["gpu.topology/group"] = group
            document["metadata"]["annotations"]["gpu.topology/group"] = group
        return document


def _gates(document: Object) -> int:
    return sum(gate["name"] == GATE for gate in document["spec"].get("schedulingGates", ()))

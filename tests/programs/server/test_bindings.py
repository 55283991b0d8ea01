"""The application at ``/mutate/bindings``, without a socket: what is answered, logged, counted and told."""

import asyncio
import base64
import json
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from tempfile import TemporaryFile
from typing import IO, Any

import pytest

from tests.hardware.topology.machines import a100_pcie_bridged
from tests.pods import Manifest, annotation_reference, container, pod
from tests.programs.server import large
from tests.programs.server.asgi import UID, Answer, application, binding_review, post, review
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.fastest_pair import FastestPair
from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.objects.binding import PodEvent
from webhook.objects.pod import Namespace
from webhook.words.errors import PodsUnreadable
from webhook.words.outcome import fit

PATH = "/mutate/bindings"
GPU = [f"GPU-00000000-0000-0000-0000-00000000000{index}" for index in range(4)]
KNOWN_NODE = Sources(published=KnownNode(a100_pcie_bridged(), origin=Origin.AGENT), age=20.0)
OLD_NODE = Sources(published=KnownNode(a100_pcie_bridged(), origin=Origin.AGENT), age=1020.0)
POD_UID = "0a6f8d0e-0d5b-4b63-9a0e-3f8b0f7d9c11"
WORST = "GPU1 and GPU2 have 10.0 GB/s (SYS), the link class is SYS"


@dataclass
class KnownCluster:
    """A state with one namespace and these nodes."""

    nodes: dict[str, Sources] = field(default_factory=lambda: {"a100-pcie": KNOWN_NODE})
    waiting_for: str = ""

    def namespace(self, name: str) -> Namespace:
        return Namespace(name, {"gpu.topology/injection": "enabled"}, known=name == "ml-workloads")

    def cluster(self) -> ClusterFacts:
        return ClusterFacts()

    def fastest_pair(self) -> FastestPair | None:
        return None

    def node(self, name: str) -> Sources:
        return self.nodes.get(name, Sources())


class BrokenCluster(KnownCluster):
    """A state with a bug."""

    def node(self, name: str) -> Sources:
        raise ZeroDivisionError(f"looking for {name}")


@dataclass
class KnownPods:
    """Pods of these values; what was asked for is remembered."""

    live: Any = None
    """A manifest, or the bytes of an answer."""
    others: Sequence[Manifest] | str = ()
    """The group, or why it cannot be read."""
    asked: list[tuple[str, ...]] = field(default_factory=list)
    deadlines: list[float | None] = field(default_factory=list)

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        self.asked.append(("pod", namespace, name))
        self.deadlines.append(deadline)
        if isinstance(self.live, bytes) or self.live is None:
            return self.live
        return json.dumps(self.live).encode()

    async def group(self, namespace: str, group: str, node: str, *, deadline: float | None = None) -> list[bytes]:
        self.asked.append(("group", namespace, group, node))
        self.deadlines.append(deadline)
        if isinstance(self.others, str):
            raise PodsUnreadable(self.others)
        return [json.dumps(one).encode() for one in self.others]


class NoApiServer(KnownPods):
    """An API server that is away."""

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        self.deadlines.append(deadline)
        raise PodsUnreadable(f"get pod {namespace}/{name}: connection refused. The scheduler tries again")


@dataclass
class SlowApiServer(KnownPods):
    """An API server that answers when it is told to, and until the deadline not at all."""

    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        try:
            async with asyncio.timeout_at(deadline):
                await self.answers.wait()
        except TimeoutError:
            raise PodsUnreadable(f"get pod {namespace}/{name}: no answer in time") from None
        return await super().pod(namespace, name)


@dataclass
class Told:
    """Keeps what it is told."""

    events: list[tuple[str, str, str, PodEvent]] = field(default_factory=list)
    lost: int = 0

    def tell(self, namespace: str, name: str, uid: str, event: PodEvent) -> None:
        self.events.append((namespace, name, uid, event))


@dataclass
class Result:
    """What became of one review."""

    answer: Answer
    lines: list[Manifest]
    told: list[tuple[str, str, str, PodEvent]]
    app: Any

    @property
    def response(self) -> Manifest:
        assert self.answer.status == 200, self.answer.body
        return self.answer.response

    @property
    def patch(self) -> Any:
        """The operations, as the API server reads them."""
        assert self.response["patchType"] == "JSONPatch"
        return json.loads(base64.b64decode(self.response["patch"], validate=True))

    @property
    def status(self) -> Manifest:
        return dict(self.response["status"])

    @property
    def audit(self) -> Manifest:
        return dict(self.response["auditAnnotations"])


@pytest.fixture
def log() -> Iterator[IO[bytes]]:
    with TemporaryFile() as opened:
        yield opened


def ask(pods: KnownPods, body: bytes | None = None, *, state: KnownCluster | None = None, **settings: Any) -> Result:
    """The answer about the Binding of the pod ml-workloads/train to a100-pcie, unless ``body`` is something else."""
    told = Told()
    with TemporaryFile() as opened:
        app = application(state or KnownCluster(), opened, pods, told, **settings)
        answer = post(app, binding_review(to_node()) if body is None else body, path=PATH)
        opened.seek(0)
        return Result(answer, [json.loads(line) for line in opened.read().splitlines()], told.events, app)


def to_node(node: str = "a100-pcie", **metadata: Any) -> Manifest:
    """What HAMi posts: a Binding without annotations."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "train", "namespace": "ml-workloads", "uid": POD_UID, **metadata},
        "target": {"kind": "Node", "name": node},
    }


def injected(
    *gpus: int, profile: str = "exclusive", node: str = "a100-pcie", labels: Any = None, **options: str
) -> Manifest:
    """A pod as admission and HAMi left it: one container with these GPUs."""
    devices = "".join(f"{GPU[index]},NVIDIA,81920,100:" for index in gpus)
    written = {f"gpu.topology/{key.replace('_', '-')}": value for key, value in options.items()}
    annotations = {
        "gpu.topology/injected": f"0.1.0 {profile}",
        "hami.io/vgpu-node": node,
        "hami.io/vgpu-devices-allocated": f"{devices};",
        **written,
    }
    env: list[Manifest] = [
        {"name": "CUDA_DISABLE_CONTROL", "value": "true"},
        {"name": "NCCL_P2P_LEVEL", "valueFrom": annotation_reference("gpu.topology/nccl-p2p-level")},
        {"name": "NCCL_NVLS_ENABLE", "value": "0"},
        {"name": "HF_TOKEN", "value": "s3cret"},
    ]
    if profile != "exclusive":
        visible = annotation_reference("gpu.topology/cuda-visible-devices.0")
        env.append({"name": "CUDA_VISIBLE_DEVICES", "valueFrom": visible})
        uuids = annotation_reference("gpu.topology/visible-uuids")
        shown: Manifest = {"value": "all"} if profile == "node-peers" else {"valueFrom": uuids}
        env.append({"name": "NVIDIA_VISIBLE_DEVICES", **shown})
    made = pod(container(gpus=len(gpus), env=env), annotations=annotations, labels=labels)
    made["metadata"] |= {"namespace": "ml-workloads", "uid": POD_UID}
    return made


def test_the_values_are_put_onto_the_binding() -> None:
    result = ask(KnownPods(injected(0, 1)))
    assert result.response.keys() == {"uid", "allowed", "patch", "patchType", "auditAnnotations"}
    assert (result.response["uid"], result.response["allowed"]) == (UID, True)
    assert result.audit == {"outcome": "patch", "reason": "resolved", "profile": "exclusive"}
    values = {
        "gpu.topology/nccl-p2p-level": "auto",
        "gpu.topology/link": "NVLink",
        "gpu.topology/bandwidth": "240",
        "gpu.topology/ring-order": "0,1",
        "gpu.topology/numa": "0",
        "gpu.topology/satisfied": "true",
    }
    assert result.patch == [{"op": "add", "path": "/metadata/annotations", "value": values}]
    assert result.told == []


def test_each_binding_is_one_line_of_the_log_without_values_of_variables() -> None:
    result = ask(KnownPods(injected(0, 1, require_nvlink="true")))
    (line,) = result.lines
    assert 0 <= line.pop("waitingMicroseconds") <= line.pop("microseconds")
    assert datetime.fromisoformat(line.pop("time")).utcoffset() == timedelta(0)
    assert line == {
        "level": "info",
        "message": "binding",
        "uid": UID,
        "namespace": "ml-workloads",
        "name": "train",
        "node": "a100-pcie",
        "outcome": "patch",
        "reason": "resolved",
        "profile": "exclusive",
        "link": "NVLink",
        "satisfied": True,
    }


def test_the_pod_is_asked_for_once_and_its_group_not_at_all() -> None:
    pods = KnownPods(injected(0, 1, require_nvlink="true", group="g"))
    ask(pods)
    assert pods.asked == [("pod", "ml-workloads", "train")]


@pytest.mark.parametrize("add", large.PLACES)
def test_pods_that_are_too_large_are_not_remembered(log: IO[bytes], add: large.Add) -> None:
    pods = KnownPods()
    app = application(KnownCluster(), log, pods)

    def bind(made: Manifest) -> None:
        pods.live = made
        assert "patch" in post(app, binding_review(to_node()), path=PATH).response

    assert large.kept(lambda: injected(0, 1), add, bind) < large.COUNT * large.LARGE / 2


def test_a_binding_of_the_legacy_resource_is_answered_like_any_other() -> None:
    legacy = binding_review(
        to_node(), name="", resource={"group": "", "version": "v1", "resource": "bindings"}, subResource=""
    )
    pods = KnownPods(injected(0, 1))
    result = ask(pods, legacy)
    assert pods.asked == [("pod", "ml-workloads", "train")]
    assert result.answer == ask(KnownPods(injected(0, 1))).answer


@pytest.mark.parametrize(
    ("live", "reason"),
    [
        (None, "pod-gone"),
        (pod(), "not-injected"),
        ({**injected(0, 1), "metadata": {**injected(0, 1)["metadata"], "uid": "another"}}, "pod-recreated"),
        ({**injected(0, 1), "spec": {"nodeName": "l40s", **injected(0, 1)["spec"]}}, "already-bound"),
    ],
)
def test_a_binding_that_is_not_ours_passes_without_a_patch(live: Any, reason: str) -> None:
    result = ask(KnownPods(live))
    assert result.response == {
        "uid": UID,
        "allowed": True,
        "auditAnnotations": {"outcome": "skip", "reason": reason},
    }
    assert [(line["outcome"], line["reason"]) for line in result.lines] == [("skip", reason)]


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE", "CONNECT"])
def test_another_operation_than_a_creation_passes_and_asks_nobody(operation: str) -> None:
    pods = KnownPods(injected(0, 1))
    result = ask(pods, binding_review(None, operation=operation))
    assert (result.audit, pods.asked) == ({"outcome": "skip", "reason": "not-a-binding"}, [])


@pytest.mark.parametrize("binding", [{}, {"metadata": {"name": "train"}}, {"target": None}, {"target": {"name": ""}}])
def test_a_binding_without_a_node_is_left_to_the_api_server_which_refuses_it(binding: Manifest) -> None:
    pods = KnownPods(injected(0, 1))
    result = ask(pods, binding_review(binding))
    assert (result.audit, pods.asked) == ({"outcome": "skip", "reason": "not-a-binding"}, [])
    assert "patch" not in result.response


def test_an_api_server_that_is_away_refuses_the_binding_with_503_for_the_scheduler_to_try_again() -> None:
    result = ask(NoApiServer())
    assert result.response["allowed"] is False
    assert result.status == {
        "status": "Failure",
        "message": "get pod ml-workloads/train: connection refused. The scheduler tries again",
        "reason": "ServiceUnavailable",
        "code": 503,
    }
    assert result.audit == {"outcome": "refuse", "reason": "pod-unreadable"}
    assert result.lines[0]["error"] == result.status["message"]


def test_an_api_server_that_is_slow_has_until_the_deadline_and_then_the_binding_is_refused_with_503() -> None:
    result = ask(SlowApiServer(), binding={"readSeconds": 0.01})
    assert (result.status["code"], result.status["reason"]) == (503, "ServiceUnavailable")
    assert result.status["message"] == "get pod ml-workloads/train: no answer in time"


def test_reviews_of_pods_are_answered_while_a_binding_waits_for_its_pod(log: IO[bytes]) -> None:
    pods = SlowApiServer(injected(0, 1))
    app = application(KnownCluster(), log, pods)

    async def call(path: str, body: bytes, answered: list[MutableMapping[str, Any]]) -> None:
        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            answered.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
        await app.answers(scope, receive, send)

    async def both() -> tuple[int, Any]:
        first: list[MutableMapping[str, Any]] = []
        second: list[MutableMapping[str, Any]] = []
        waiting = asyncio.create_task(call(PATH, binding_review(to_node()), first))
        await asyncio.sleep(0)
        await call("/mutate/pods", review(pod()), second)
        answered_before = len(first)
        assert second[0]["status"] == 200
        pods.answers.set()
        await waiting
        return answered_before, json.loads(first[1]["body"])["response"]["auditAnnotations"]["reason"]

    assert asyncio.run(both()) == (0, "resolved")


def test_without_a_topology_an_exclusive_pod_is_bound_with_a_warning_and_an_event() -> None:
    result = ask(KnownPods(injected(0, 1)), state=KnownCluster({}))
    said = "GT314: pod ml-workloads/train: the topology of node a100-pcie is not known. Is the agent running there?"
    assert result.response == {
        "uid": UID,
        "allowed": True,
        "warnings": [said],
        "auditAnnotations": {"outcome": "degraded", "reason": "node-unknown", "profile": "exclusive"},
    }
    assert result.told == [("ml-workloads", "train", POD_UID, PodEvent("NotResolved", said))]


def test_without_a_topology_a_pod_that_would_see_no_gpu_is_refused_with_409() -> None:
    result = ask(KnownPods(injected(0, 1, profile="pod-peers")), state=KnownCluster({}))
    assert result.response["allowed"] is False
    assert result.status == {
        "status": "Failure",
        "message": "GT314: pod ml-workloads/train: "
        "the topology of node a100-pcie is not known. Is the agent running there?",
        "reason": "Conflict",
        "code": 409,
    }


def test_a_topology_that_is_out_of_date_still_serves_an_exclusive_pod_with_a_warning() -> None:
    result = ask(KnownPods(injected(0, 1)), state=KnownCluster({"a100-pcie": OLD_NODE}))
    assert result.response["warnings"] == ["GT317: the agent of node a100-pcie has not been heard of for 17 minutes"]
    assert result.patch[0]["value"]["gpu.topology/link"] == "NVLink"


def test_a_topology_that_is_out_of_date_serves_no_pod_that_nothing_verifies() -> None:
    result = ask(KnownPods(injected(0, 1, profile="pod-peers")), state=KnownCluster({"a100-pcie": OLD_NODE}))
    assert (result.status["code"], result.audit["reason"]) == (409, "node-unknown")
    assert "the topology of node a100-pcie is 17 minutes old" in result.status["message"]


def test_how_old_a_topology_may_be_is_configured() -> None:
    late = {"topologyMaxAgeSeconds": 1021}
    result = ask(KnownPods(injected(0, 1)), state=KnownCluster({"a100-pcie": OLD_NODE}), binding=late)
    assert "warnings" not in result.response


def test_an_allocation_of_an_earlier_attempt_on_another_node_is_not_used() -> None:
    result = ask(KnownPods(injected(0, 1, node="l40s", profile="pod-peers")))
    assert (result.status["code"], result.audit["reason"]) == (409, "stale-allocation")
    assert "the allocation was made for node l40s" in result.status["message"]
    exclusive = ask(KnownPods(injected(0, 1, node="l40s")))
    assert exclusive.audit == {"outcome": "degraded", "reason": "stale-allocation", "profile": "exclusive"}
    assert "patch" not in exclusive.response


def test_a_requirement_that_is_not_met_is_said_to_everybody_and_the_pod_is_bound() -> None:
    result = ask(KnownPods(injected(1, 2, require_nvlink="true")))
    said = f"GT310: pod ml-workloads/train on node a100-pcie: require-nvlink: {WORST}"
    assert result.audit == {"outcome": "degraded", "reason": "requirement-not-met", "profile": "exclusive"}
    assert result.response["warnings"] == [fit(said)]
    assert result.patch[0]["value"]["gpu.topology/satisfied"] == "false"
    assert result.told == [("ml-workloads", "train", POD_UID, PodEvent("RequirementNotMet", said))]
    (line,) = result.lines
    assert (line["satisfied"], line["link"], line["error"]) == (False, "SYS", said)
    assert "warnings" not in line


def test_a_requirement_that_is_not_met_with_deny_refuses_the_binding_with_403_and_an_event() -> None:
    result = ask(KnownPods(injected(1, 2, require_nvlink="true", on_violation="deny")))
    assert result.response["allowed"] is False
    assert result.status == {
        "status": "Failure",
        "message": f"GT310: pod ml-workloads/train on node a100-pcie: require-nvlink: {WORST}",
        "reason": "Forbidden",
        "code": 403,
    }
    assert "patch" not in result.response
    assert [event.reason for *_, event in result.told] == ["RequirementNotMet"]


def test_an_option_that_cannot_be_read_refuses_the_binding_with_422() -> None:
    result = ask(KnownPods(injected(0, 1, min_bandwidth="fast")))
    assert (result.status["code"], result.status["reason"]) == (422, "Invalid")
    assert result.audit == {"outcome": "refuse", "reason": "bad-pod"}


def test_a_dry_run_gets_the_same_answer_and_has_no_side_effect() -> None:
    live = injected(1, 2, require_nvlink="true")
    real = ask(KnownPods(live))
    dry = ask(KnownPods(live), binding_review(to_node(), dryRun=True))
    assert dry.answer == real.answer
    assert (len(real.told), dry.told) == (1, [])
    assert (real.app.counts.bindings.total(), dry.app.counts.bindings.total()) == (1, 0)
    assert dry.lines[0]["dryRun"] is True


def test_the_other_pods_of_the_group_on_the_node_count_for_a_requirement_of_node_peers() -> None:
    live = injected(0, profile="node-peers", group="pd", require_nvlink="true", on_violation="deny")
    other = injected(2, profile="node-peers")
    other["metadata"] |= {"name": "decode", "uid": "another"}
    pods = KnownPods(live, [other, live])
    result = ask(pods)
    assert pods.asked == [("pod", "ml-workloads", "train"), ("group", "ml-workloads", "pd", "a100-pcie")]
    first, second = pods.deadlines
    assert first is not None
    assert first == second  # the scheduler holds the node for as long as both take together
    assert result.audit["reason"] == "requirement-not-met"
    assert ask(KnownPods(live, [live])).audit["reason"] == "resolved"


def test_a_group_that_cannot_be_read_refuses_the_binding_with_503() -> None:
    live = injected(0, profile="node-peers", group="pd", require_nvlink="true")
    result = ask(KnownPods(live, "list pods of group pd: timed out"))
    assert (result.status["code"], result.status["message"]) == (503, "list pods of group pd: timed out")
    assert result.app.counts.failed_reads == {"group": 1}


@pytest.mark.parametrize(
    "live", [b"", b"{", b"[]", b'{"spec": []}', b'{"metadata": {"annotations": {"a": 1}}}', b"\xff"]
)
def test_an_answer_of_the_api_server_that_is_no_pod_is_a_500(live: bytes) -> None:
    result = ask(KnownPods(live))
    assert (result.answer.status, result.answer.body) == (500, b"internal error; the log has the details")
    (line,) = result.lines
    assert (line["message"], line["status"]) == ("bug", 500)
    assert "MalformedPod: pod ml-workloads/train: expected a pod, found something else" in line["error"]


def test_a_field_of_the_live_pod_with_a_wrong_type_is_a_500_too() -> None:
    live = injected(0, 1)
    live["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": ["s3cret"]}]
    result = ask(KnownPods(live))
    assert result.answer.status == 500
    assert "MalformedPod: env of container train" in result.lines[0]["error"]
    assert "s3cret" not in str(result.lines)


def test_a_bug_is_a_500_without_details_and_the_log_has_them() -> None:
    result = ask(KnownPods(injected(0, 1)), state=BrokenCluster())
    assert (result.answer.status, result.answer.body) == (500, b"internal error; the log has the details")
    assert "ZeroDivisionError: looking for a100-pcie" in result.lines[0]["error"]


def test_a_review_of_a_pod_is_told_where_it_belongs() -> None:
    result = ask(KnownPods(), review(pod()))
    assert result.answer.status == 400
    assert result.answer.body.decode() == (
        "request.resource: expected pods/binding or bindings of v1, found pods of v1. "
        "Check the rules of the MutatingWebhookConfiguration: reviews of pods belong to /mutate/pods"
    )
    assert [(line["message"], line["status"]) for line in result.lines] == [("rejected", 400)]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b"\xff"])
def test_what_is_no_review_is_a_bad_request(body: bytes) -> None:
    result = ask(KnownPods(), body)
    assert result.answer.status == 400
    assert result.answer.body.startswith(b"request body: expected ")


def test_another_method_is_405(log: IO[bytes]) -> None:
    answer = post(application(KnownCluster(), log), b"", path=PATH, method="GET")
    assert (answer.status, answer.body) == (405, b"/mutate/bindings: expected POST, found GET")


def test_values_of_variables_are_in_no_line_and_no_answer() -> None:
    for live in (injected(0, 1), injected(1, 2, require_nvlink="true"), injected(0, 1, nvls="sure")):
        live["metadata"]["annotations"]["gpu.topology/env.TOKEN"] = "s3cret"
        result = ask(KnownPods(live))
        assert "s3cret" not in str(result.lines) + result.answer.body.decode() + str(result.told)


def test_what_became_of_bindings_is_counted(log: IO[bytes]) -> None:
    pods = KnownPods(injected(0, 1, require_nvlink="true"))
    app = application(KnownCluster(), log, pods)
    post(app, binding_review(to_node()), path=PATH)
    pods.live = injected(1, 2, require_nvlink="true")
    post(app, binding_review(to_node()), path=PATH)
    pods.live = injected(0, 1)
    post(app, binding_review(to_node()), path=PATH)
    post(app, binding_review(None, operation="DELETE"), path=PATH)
    counts = app.counts
    assert counts.bindings == {
        ("patch", "resolved", "exclusive"): 2,
        ("degraded", "requirement-not-met", "exclusive"): 1,
        ("skip", "not-a-binding", ""): 1,
    }
    assert counts.links == {"NVLink": 2, "SYS": 1}
    assert counts.requirements == {True: 1, False: 1}
    assert counts.same_numa == {True: 2, False: 1}
    assert sum(counts.binding_seconds.buckets) == 4
    assert sum(counts.waiting_seconds.buckets) == 3
    assert counts.failed_reads == {}


def test_a_pod_that_could_not_be_read_is_counted() -> None:
    assert ask(NoApiServer()).app.counts.failed_reads == {"pod": 1}
    assert ask(SlowApiServer(), binding={"readSeconds": 0.01}).app.counts.failed_reads == {"pod": 1}

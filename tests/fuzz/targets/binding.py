"""Reviews of Bindings with the pod that the API server has, from the bytes of a request to those of the answer.

An input is a scene (``tests.fuzz.scenes``) with ``pod``, which the API server answers with, ``group``, the other pods
of its group, ``claims`` and ``slices``.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jsonpatch
import msgspec

from tests.decisions.claims.cases import CASES as CLAIM_CASES
from tests.fuzz import effort
from tests.fuzz.laws import check_log_line, check_message, check_response, check_written, patch_of
from tests.fuzz.permissions import outputs
from tests.fuzz.scenes import (
    Manifest,
    Scene,
    binding_review,
    golden_scenes,
    kept_log,
    known_policies,
    read_scene,
    written,
)
from tests.hardware.topology.machines import H20_UUIDS
from webhook.objects.binding import PodEvent
from webhook.objects.envelope import MalformedReview
from webhook.objects.event import shortened
from webhook.objects.pod import MalformedPod
from webhook.programs.server.bindings import BindingReviews
from webhook.programs.server.counts import Counts

NODE = "h20-node-1"
EVENT_LIMIT = 1024
"""Characters of an Event's note: k8s.io/kubernetes pkg/apis/core/validation/events.go."""
FIXED_CALLS, CALLS_EACH = 12_000, 3.0
"""For each byte of the request and of the pods that are read for it."""
_OUR_KEYS = ("gpu.topology/nccl-p2p-level",)


def _allocations(count: int) -> Iterator[Manifest]:
    """What schedulers write of so many GPUs."""
    uuids = H20_UUIDS[:count]
    segment = "".join(f"{uuid},NVIDIA,97871,100:" for uuid in uuids)
    yield {"hami.io/vgpu-node": NODE, "hami.io/vgpu-devices-allocated": segment + ";"}
    yield {
        "hami.io/vgpu-node": NODE,
        "hami.io/vgpu-devices-allocated": segment + ";",
        "hami.io/vgpu-devices-to-allocate": segment + ";",
        "hami.io/vgpu-mig-allocations": json.dumps([{"gpuUUID": uuids[0], "profile": "1g.10gb"}]),
    }
    yield {"volcano.sh/vgpu-node": NODE, "volcano.sh/vgpu-ids-new": segment}
    gpus = [{"minor": index, "id": uuid} for index, uuid in enumerate(uuids)]
    yield {"scheduling.koordinator.sh/device-allocated": json.dumps({"gpu": gpus})}


def seeds() -> Iterator[bytes]:
    """The golden pods that were prepared, with allocations of the three schedulers."""
    binding = _binding("uid-1")
    for scene in golden_scenes():
        pod = scene.pop("pod")
        if "gpu.topology/injected" not in outputs(pod):
            continue
        for number, allocation in enumerate(_allocations(2)):
            metadata = {"name": "train", "namespace": "team-a", "uid": "uid-1", "labels": {}} | pod["metadata"]
            live = pod | {"metadata": metadata | {"annotations": metadata["annotations"] | allocation}}
            told = binding | {"metadata": binding["metadata"] | {"annotations": dict(allocation)}}
            group = [live] if number == 0 else []
            yield written(
                scene | {"pod": live, "group": group, "review": binding_review(told if number > 1 else binding)}
            )
    yield from _claimed()


def _binding(uid: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "train", "namespace": "team-a", "uid": uid},
        "target": {"kind": "Node", "name": NODE},
    }


def _claimed() -> Iterator[bytes]:
    """The golden cases of claims, as if admission had prepared their pods for the cards of the machine."""
    number = next(number for number, rules in enumerate(known_policies()) if rules.claims.enabled)
    cards = re.compile("GPU-00000000-0000-0000-0000-00000000000([0-7])")
    for case in sorted(path for path in CLAIM_CASES.iterdir() if path.is_dir()):
        pod = json.loads((case / "pod.json").read_text())
        for container in pod["spec"]["containers"]:
            values = {"GPU_TOPOLOGY_PROFILE": "exclusive", "NCCL_P2P_LEVEL": "auto", "NCCL_NVLS_ENABLE": "2"}
            container["env"] = [{"name": name, "value": value} for name, value in values.items()]
        text = json.dumps(
            {
                "policy": number,
                "review": binding_review(_binding(pod["metadata"]["uid"])),
                "pod": pod,
                "claims": json.loads((case / "claims.json").read_text()),
                "slices": json.loads((case / "slices.json").read_text()),
            },
            separators=(",", ":"),
        )
        yield cards.sub(lambda found: H20_UUIDS[int(found[1])], text.replace("a100-bridged", NODE)).encode()


@dataclass
class _Answered:
    """Pods as the API server has them, and what was told about them."""

    live: bytes | None
    others: list[bytes]
    asked: list[tuple[object, ...]] = field(default_factory=list)
    told: list[tuple[str, str, str, PodEvent]] = field(default_factory=list)
    lost = 0

    async def pod(self, namespace: str, name: str, *, deadline: float | None = None) -> bytes | None:
        """The pod."""
        self.asked.append((namespace, name, deadline))
        return self.live

    async def group(self, namespace: str, group: str, node: str, *, deadline: float | None = None) -> list[bytes]:
        """The others."""
        self.asked.append((namespace, group, node, deadline))
        return self.others

    def tell(self, namespace: str, name: str, uid: str, event: PodEvent) -> None:
        """An Event."""
        self.told.append((namespace, name, uid, event))


def target(data: bytes) -> None:
    """Fails where an answer breaks a law."""
    scene = read_scene(data)
    cluster = _cluster(scene)
    others = sum(map(len, cluster.others)) + sum(map(len, scene.claims.objects.values()))
    size = scene.body + b" " * (len(cluster.live or b"") + others)
    reply = effort.sampled(size, fixed=FIXED_CALLS, each=CALLS_EACH, work=lambda: answer(scene, cluster))
    if reply is not None:
        check_reply(scene, cluster, reply)


def _cluster(scene: Scene) -> _Answered:
    pod = scene.document.get("pod")
    others = scene.document.get("group")
    return _Answered(
        None if pod is None else written(pod), [written(other) for other in others] if isinstance(others, list) else []
    )


def answer(scene: Scene, cluster: _Answered) -> bytes | None:
    """The answer; ``None`` if the request is refused as none that can be answered, or the pod is none."""
    cluster.asked.clear()
    with kept_log() as (log, lines):
        reviews = BindingReviews(
            state=scene,
            pods=cluster,
            claims=scene.claims,
            events=cluster,
            policy=scene.rules,
            log=log,
            counts=Counts(lambda: 0),
        )
        try:
            reply = asyncio.run(reviews.answer(scene.body, 0))
        except (MalformedReview, MalformedPod) as error:
            check_message(str(error))
            return None
        for line in lines():
            check_log_line(line)
    assert len(cluster.asked) <= 2, f"{len(cluster.asked)} requests for one review"
    for *_, event in cluster.told:
        note = shortened(event.note)  # as it is written
        assert note
        assert len(note) <= EVENT_LIMIT, f"an Event of {len(note)} characters"
        assert note.isprintable(), f"an Event with {note[:300]!r}"
    return reply


def check_reply(scene: Scene, cluster: _Answered, reply: bytes) -> None:
    """The laws of answers."""
    allowed = check_response(scene.body, reply)
    if allowed is None or "patch" not in allowed[1]:
        return
    request, response = allowed
    before = request["object"]
    after: Manifest = jsonpatch.apply_patch(before, patch_of(response))
    check_binding(before, after)
    _check_uuids(scene, cluster, after)
    again = answer(_with_binding(scene, request, after), cluster)
    assert again is not None, "a Binding that was readable and is not any more"
    assert "patch" not in json.loads(again)["response"], "a second review that adds something"
    _check_allocation_of_the_pod(scene, cluster, request, after)


def check_binding(before: Manifest, after: Manifest) -> None:
    """Nothing but annotations of ours is written."""
    old, new = before.get("metadata") or {}, after["metadata"]
    assert {**before, "metadata": None} == {**after, "metadata": None}
    assert {**old, "annotations": None} == {**new, "annotations": None}
    there, found = old.get("annotations") or {}, new["annotations"]
    changed = {key: value for key, value in found.items() if there.get(key) != value}
    assert there.keys() <= found.keys()
    assert changed.keys() <= {*outputs(after), *_OUR_KEYS}, f"annotations {sorted(changed)[:5]}"
    check_written(changed.items())


def _check_uuids(scene: Scene, cluster: _Answered, after: Manifest) -> None:
    """A pod is shown the cards that a scheduler wrote down for it, and no others."""
    shown = after["metadata"]["annotations"].get("gpu.topology/visible-uuids", "none")
    published = json.dumps(scene.document.get("slices")).encode()
    known = (cluster.live or b"") + scene.body + published
    for uuid in shown.split(","):
        assert uuid in ("none", "") or uuid.encode() in known or "koordinator" in known.decode(), uuid


def _check_allocation_of_the_pod(scene: Scene, cluster: _Answered, request: Manifest, after: Manifest) -> None:
    """Who sends a Binding cannot say which cards the pod has."""
    binding = request["object"]
    metadata = dict(binding.get("metadata") or {}) | {"annotations": {}}
    reply = answer(_with_binding(scene, request, binding | {"metadata": metadata}), cluster)
    assert reply is not None
    patch = patch_of(json.loads(reply)["response"])
    plain: Manifest = jsonpatch.apply_patch(binding | {"metadata": metadata}, patch)
    found, expected = outputs(after), outputs(plain)
    assert {key: found[key] for key in expected} == expected, "what the Binding says of the allocation is believed"


def _with_binding(scene: Scene, request: Manifest, binding: Any) -> Scene:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | {"object": binding}}
    return replace(scene, body=msgspec.json.encode(review))

"""Reviews of Bindings that the API server never sent, by somebody in the network without credentials."""

import base64
import json
import time
from typing import Any

import httpx

from tests.control_plane.api_metrics import requests_of
from tests.control_plane.attacks.replay import Found
from tests.control_plane.attacks.stage import Stage
from tests.control_plane.registration import gpu_pod
from tests.control_plane.scheduling import NODE
from tests.hardware.topology.machines import H20_UUIDS

TEXTS = ("call 555-0100 for help", "call-555-0100-for-help", "a\u202eb\u0085c", "x" * 100_000)
NAMESPACES = 300
AT_ONCE, PER_SECOND = 100, 20.0
"""Requests for namespaces that forged reviews may lead to, at most."""
SETTLE_S = 3.0
"""As long as an Event is waited for that should not come."""


def run(stage: Stage) -> Found:
    """A text for an Event, cards of any node, and namespaces that are not there."""
    created = stage.creator.creates(stage.team, gpu_pod("waiting", {}))
    with stage.neighbour.client() as client:
        told = _events_told(stage, client)
        leaked = _cards_leaked(stage, client)
        before, begin = _asked(stage), time.monotonic()
        for number in range(NAMESPACES):
            client.post("/mutate/bindings", content=_review(f"nowhere-{number}", "p", {}, NODE))
        asked, most = _asked(stage) - before, AT_ONCE + PER_SECOND * (time.monotonic() - begin)
    faults = [] if created.status == 201 else [f"no pod to bind: {created.short}"]
    faults += [f"an Event says {text[:60]!r}" for text in told]
    faults += [f"the reply tells {leaked}"] if leaked else []
    faults += [f"{NAMESPACES} unknown namespaces were {asked} requests"] if asked > most else []
    said = f"{len(told)} texts in Events; {leaked or 'no card'} leaked; {asked} requests for {NAMESPACES} namespaces"
    return Found(said, tuple(faults))


def _events_told(stage: Stage, client: httpx.Client) -> list[str]:
    for text in TEXTS:
        client.post("/mutate/bindings", content=_review(stage.team, "waiting", {}, text))
    time.sleep(SETTLE_S)
    events = stage.administrator.asks("GET", f"/api/v1/namespaces/{stage.team}/events").body["items"]
    said = json.dumps([event.get("message", "") for event in events], ensure_ascii=False)
    return [text for text in TEXTS if text[:200] in said]


def _cards_leaked(stage: Stage, client: httpx.Client) -> str:
    allocation = {
        "hami.io/vgpu-node": NODE,
        "hami.io/vgpu-devices-allocated": "".join(f"{uuid},NVIDIA,97871,100:" for uuid in H20_UUIDS[:2]) + ";",
    }
    answer = client.post("/mutate/bindings", content=_review(stage.team, "waiting", allocation, NODE))
    if answer.status_code != 200:
        return ""
    patch = base64.b64decode(answer.json()["response"].get("patch", "")).decode()
    # Two were known to whoever forged it, the others were not.
    found = [what for what, text in (("other cards", H20_UUIDS[7]), ("the topology", "nvswitches")) if text in patch]
    return " and ".join(found)


def _asked(stage: Stage) -> int:
    return requests_of(stage.control_plane, "namespaces", "GET")


def _review(namespace: str, pod: str, annotations: dict[str, str], node: str) -> bytes:
    binding: dict[str, Any] = {
        "metadata": {"name": pod, "namespace": namespace, "annotations": annotations},
        "target": {"kind": "Node", "name": node},
    }
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "binding",
        "namespace": namespace,
        "name": pod,
        "object": binding,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review, ensure_ascii=False).encode()

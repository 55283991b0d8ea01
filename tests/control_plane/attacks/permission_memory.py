"""A pod that the API server will refuse anyway, to be admitted once; then one that nobody should admit."""

from typing import Any

from tests.control_plane.attacks.replay import Found
from tests.control_plane.attacks.stage import Stage
from tests.control_plane.registration import gpu_container, gpu_pod
from webhook.words.names import ENV_NVIDIA_VISIBLE_DEVICES

PEERS = {"gpu.topology/profile": "pod-peers"}
HARMLESS: dict[str, Any] = {"fieldRef": {"fieldPath": ""}}
SOURCES: dict[str, dict[str, Any]] = {
    "configMapKeyRef": {"name": "cards", "key": "all"},
    "secretKeyRef": {"name": "cards", "key": "all"},
    "resourceFieldRef": {"resource": "limits.cpu"},
    "fieldRef": {"fieldPath": "metadata.annotations['example.com/cards']"},
}


def run(stage: Stage) -> Found:
    """Each source after the harmless one; ``allow-node-gpus`` is missing, so all of them need a refusal."""
    said, faults = [], []
    for source, reference in SOURCES.items():
        for _ in range(2):  # a memory may be filled by the first and asked by the second
            stage.creator.creates(stage.team, _pod("harmless", HARMLESS), dry_run=True)
            answer = stage.creator.creates(stage.team, _pod("all-cards", {source: reference}), dry_run=True)
            if answer.status != 403 or "gpu.topology/allow-node-gpus" not in answer.text:
                faults.append(f"an own list of GPUs by {source}: {answer.short}")
        said.append(f"{source}: {answer.status}")
    return Found("; ".join(said), tuple(faults))


def _pod(name: str, source: dict[str, Any]) -> dict[str, Any]:
    """Without a token of its service account, whose mount in our container would make the API server ask us again."""
    variable = {"name": ENV_NVIDIA_VISIBLE_DEVICES, "valueFrom": source}
    pod = gpu_pod(name, PEERS, gpu_container(env=[variable]))
    pod["spec"]["automountServiceAccountToken"] = False
    return pod

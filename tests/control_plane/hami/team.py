"""A namespace of one test, and what its people, the kubelet and an onlooker do there."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kubernetes.client import CoreV1Api, V1ObjectMeta

from tests.control_plane.accounts import namespace_for_pods
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.hami.device_plugin import LOCK
from tests.control_plane.registration import Answer, create_pod
from tests.control_plane.scheduling import stored_pod
from tests.programs.server.conftest import until
from webhook.words.names import HAMI_DEVICES_ALLOCATED

WAITING = "spec.nodeName="
"""Field selector of pods without a node."""
OPTED_IN = {"injection": "enabled"}
PERMISSIONS = {"allow_host_ipc": "true", "allow_host_pid": "true", "allow_node_gpus": "true"}
RUNNING = {"running": {"startedAt": "2026-11-20T21:51:20Z"}}
SUCCEEDED = {"terminated": {"exitCode": 0}}


@dataclass
class Team:
    """One namespace.

    Attributes:
        learn: Has our servers see the namespace as it is now.
        seen: Pods that have been given their cards are added to it.
        changed: Whether it is no longer what it was at the beginning.
    """

    control_plane: ControlPlane
    admin: CoreV1Api
    namespace: str
    learn: Callable[[], None]
    seen: list[dict[str, Any]] = field(default_factory=list)
    changed: bool = False

    def label(self, **labels: str) -> None:
        """More labels of the namespace, by an administrator."""
        body: Any = {"metadata": {"labels": named(labels)}}
        self.admin.patch_namespace(self.namespace, body)
        self.changed = True
        self.learn()

    def asks_for(self, pod: dict[str, Any], *, dry_run: bool = False) -> Answer:
        """What the API server says to the pod."""
        return create_pod(self.control_plane, self.namespace, pod, dry_run=dry_run)

    def creates(self, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod as it was stored at its creation."""
        answer = self.asks_for(pod)
        assert answer.status == 201, answer.message
        stored: dict[str, Any] = answer.body
        return stored

    def pod(self, name: str) -> dict[str, Any]:
        """The pod as the kubelet reads it."""
        return stored_pod(self.admin, self.namespace, name)

    def bound(self, name: str) -> dict[str, Any]:
        """The pod once HAMi's device plugin has done its part on its node."""
        try:
            until(lambda: annotations_of(self.pod(name)).get("hami.io/bind-phase") == "success", f"{name} bound")
        except AssertionError as error:
            stored = self.pod(name)
            nodes: list[Any] = self.admin.list_node().items
            locks = {node.metadata.name: (node.metadata.annotations or {}).get(LOCK) for node in nodes}
            error.add_note(f"conditions: {stored['status'].get('conditions')}")
            error.add_note(f"annotations: {annotations_of(stored)}\nHAMi's locks of nodes: {locks}")
            raise
        self.seen.append(self.pod(name))
        return self.seen[-1]

    def told(self, name: str, text: str) -> str:
        """The first Event on the pod with this text, once there is one.

        Raises:
            AssertionError: there is none before the deadline; with what is told instead.
        """
        found: list[str] = []

        def is_told() -> bool:
            found[:] = [message for message in self.events(name) if text in message]
            return bool(found)

        try:
            until(is_told, f"an Event on {name} with {text!r}")
        except AssertionError as error:
            stored = self.pod(name)
            error.add_note(
                f"its Events: {self.events(name)}\nit: {stored['spec'].get('nodeName')}, {stored['metadata']}"
            )
            raise
        return found[0]

    def events(self, name: str) -> list[str]:
        """The messages of all Events on the pod; not of one of the same name in an earlier test, whose Events stay."""
        # As text: the client refuses Events without eventTime, such as HAMi writes.
        answer: Any = self.admin.list_namespaced_event(self.namespace, _preload_content=False)
        events, uids = json.loads(answer.data)["items"], self._uids(name)
        return [
            event["message"]
            for event in events
            if event["involvedObject"]["name"] == name and (not uids or event["involvedObject"].get("uid") in uids)
        ]

    def _uids(self, name: str) -> list[str]:
        """Of the pod, if it is there."""
        which = f"metadata.name={name}"
        answer: Any = self.admin.list_namespaced_pod(self.namespace, field_selector=which, _preload_content=False)
        return [found["metadata"]["uid"] for found in json.loads(answer.data)["items"]]

    def started(self, name: str) -> None:
        """What the kubelet reports of a pod that runs: its ordinary init containers are done."""
        spec = self.pod(name)["spec"]
        statuses = [
            _status(container["name"], RUNNING if container.get("restartPolicy") == "Always" else SUCCEEDED)
            for container in spec.get("initContainers", [])
        ]
        running = [_status(container["name"], RUNNING) for container in spec["containers"]]
        body: Any = {"status": {"phase": "Running", "initContainerStatuses": statuses, "containerStatuses": running}}
        self.admin.patch_namespaced_pod_status(name, self.namespace, body)

    def deletes(self, name: str) -> None:
        """Gone at once, as after the kubelet's last word."""
        self.admin.delete_namespaced_pod(name, self.namespace, grace_period_seconds=0)

    def ends(self) -> None:
        """All pods are gone, first those that wait for a node.

        HAMi would give them the cards of the others, and a pod that goes while HAMi chooses its cards keeps them for
        ever: seen with 2.9.0.
        """
        for which in (WAITING, ""):
            self.admin.delete_collection_namespaced_pod(self.namespace, grace_period_seconds=0, field_selector=which)
            until(partial(self.has_no_pods, which), f"no pod in {self.namespace}")

    def has_no_pods(self, which: str) -> bool:
        """Whether a field selector selects none."""
        answer: Any = self.admin.list_namespaced_pod(self.namespace, field_selector=which, _preload_content=False)
        return not json.loads(answer.data)["items"]


def create_namespace(admin: CoreV1Api, labels: Mapping[str, str]) -> str:
    """The name of a new namespace in which pods can be created; labels are written as in ``Team.label``."""
    return namespace_for_pods(admin, V1ObjectMeta(generate_name="team-", labels=named(labels)))


def named(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels: ours are given without the prefix and with ``_`` for ``-``, those of others as they are."""
    return {name if "/" in name else f"gpu.topology/{name.replace('_', '-')}": value for name, value in labels.items()}


def annotations_of(pod: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"].get("annotations", {})
    return found


def cards_of(pod: Mapping[str, Any]) -> list[list[str]]:
    """The UUIDs in HAMi's annotation: of each container that has any."""
    segments = annotations_of(pod).get(HAMI_DEVICES_ALLOCATED, "").split(";")
    cards = [[device.split(",")[0] for device in segment.split(":") if device] for segment in segments]
    return [uuids for uuids in cards if uuids]


def variables_of(container: Mapping[str, Any]) -> dict[str, Any]:
    """Literals as text; of a reference its field path."""
    return {
        variable["name"]: variable.get("value", variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath"))
        for variable in container.get("env", [])
    }


def _status(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    ready = "running" in state
    return {"name": name, "image": "x", "imageID": "x", "ready": ready, "restartCount": 0, "state": state}

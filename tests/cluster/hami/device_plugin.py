"""Does what HAMi's device plugin does when the kubelet starts a bound pod: it takes note, and unlocks the node.

Allocate consumes the list of devices container by container, sets the phase and releases the lock (plugin/server.go,
plugin/util.go). The pod's status is the kubelet's; ``Team.started`` writes it where a test needs it.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kubernetes.client import ApiException, CoreV1Api
from urllib3.exceptions import HTTPError

from tests.cluster.control_plane import ControlPlane

POLL_S = 0.1
LOCK = "hami.io/mutex.lock"
PHASE = "hami.io/bind-phase"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"


@contextmanager
def running_device_plugin(control_plane: ControlPlane) -> Iterator[None]:
    """Serves all nodes until the end."""
    stop = threading.Event()
    thread = threading.Thread(target=_serve, args=(control_plane, stop), name="device-plugin")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _serve(control_plane: ControlPlane, stop: threading.Event) -> None:
    with control_plane.client() as client:
        admin = CoreV1Api(client)
        while not stop.wait(POLL_S):
            with suppress(ApiException, HTTPError):  # what could not be done the next look does
                _look(admin)


def _look(admin: CoreV1Api) -> None:
    answer: Any = admin.list_pod_for_all_namespaces(resource_version="0", _preload_content=False)
    for pod in json.loads(answer.data)["items"]:
        annotations = pod["metadata"].get("annotations", {})
        if pod["spec"].get("nodeName") and annotations.get(PHASE) == "allocating":
            _allocate(admin, pod, annotations)


def _allocate(admin: CoreV1Api, pod: dict[str, Any], annotations: dict[str, str]) -> None:
    # Consumed segments stay empty, and each time one ";" more is written behind them.
    consumed = ";" * (annotations.get(TO_ALLOCATE, "").count(";") + 1)
    metadata = pod["metadata"]
    done: Any = {"metadata": {"annotations": {TO_ALLOCATE: consumed, PHASE: "success"}}}
    unlocked: Any = {"metadata": {"annotations": {LOCK: None}}}
    try:
        admin.patch_namespaced_pod(metadata["name"], metadata["namespace"], done)
    except ApiException as error:
        if error.status != 404:  # a test may have deleted it
            raise
    admin.patch_node(pod["spec"]["nodeName"], unlocked)

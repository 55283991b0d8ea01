"""A pod that exchanges GPU memory, at a real API server: its author hears the way, and following it is accepted."""

import re
from pathlib import Path

import pytest

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import PERMISSIONS, create_pod, gpu_container, gpu_pod, registered

pytestmark = pytest.mark.cluster

SGLANG = (
    "sleep 30 && python3 -m sglang.launch_server --host 0.0.0.0 --disaggregation-mode decode "
    "--disaggregation-transfer-backend nixl --tp-size 2"
)
SIDE = {**gpu_container("decode", 2), "command": ["bash", "-c", SGLANG]}
WAY = {"gpu.topology/profile": "node-peers", "gpu.topology/group": "qwen"}


def test_what_is_told_is_accepted_without_a_warning(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    without = dict.fromkeys(PERMISSIONS, "false")
    with registered(control_plane, namespace, tmp_path / "without", labels=without):
        told = create_pod(control_plane, namespace, gpu_pod("lonely", {}, SIDE))
    assert told.status == 201
    text = " ".join(told.warnings)
    assert re.findall(r"GT\d{3}", text) == ["GT570", "GT571", "GT573", "GT573"]
    granted = dict.fromkeys(re.findall(r"(gpu\.topology/allow-[a-z-]+)=true", text), "true")
    assert len(granted) == 3
    with registered(control_plane, namespace, tmp_path / "granted", labels=without | granted):
        followed = create_pod(control_plane, namespace, gpu_pod("together", WAY, SIDE))
    assert (followed.status, followed.warnings) == (201, [])
    spec = followed.body["spec"]
    assert (spec["hostIPC"], spec["hostPID"]) == (True, True)

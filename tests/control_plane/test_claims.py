"""GPUs that resource claims serve, at a real kube-scheduler: a pod with a part of a card beside the count waits."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api, ResourceV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.kube_scheduler import create_node_for, running_kube_scheduler
from tests.control_plane.registration import created, gpu_container, gpu_pod, registered
from tests.go_programs.catalogue import KUBE_SCHEDULER
from tests.go_programs.left_out import GetProgram
from tests.programs.server.conftest import until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

DOMAIN = "claimed.example.com"
"""Resource names of its own: others of the control plane ask for nvidia.com/gpu."""
SCHEDULER, NODE, COUNT = "of-claims", "claims-node", f"{DOMAIN}/gpu"


def family(domain: str) -> dict[str, str]:
    """Resource names that HAMi might have."""
    names = {"memory": "gpumem", "memoryPercentage": "gpumem-percentage", "cores": "gpucores"}
    return {"family": "hami", "count": f"{domain}/gpu"} | {key: f"{domain}/{name}" for key, name in names.items()}


@pytest.fixture
def scheduler(control_plane: ControlPlane, go_program: GetProgram, tmp_path: Path) -> Iterator[None]:
    program = go_program(KUBE_SCHEDULER)
    with running_kube_scheduler(program, control_plane.kubeconfig, tmp_path, name=SCHEDULER):
        yield


@pytest.fixture
def node(admin: CoreV1Api) -> Iterator[None]:
    """A node with four GPUs of a DRA driver, which a DeviceClass serves by their count."""
    create_node_for(admin, SCHEDULER, NODE)
    api = ResourceV1Api(admin.api_client)
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}"} for number in range(4)]
    slices: Any = {
        "metadata": {"name": NODE},
        "spec": {"driver": DOMAIN, "nodeName": NODE, "pool": pool, "devices": devices},
    }
    api.create_resource_slice(slices)
    selector = {"cel": {"expression": f"device.driver == '{DOMAIN}'"}}
    served: Any = {"metadata": {"name": DOMAIN}, "spec": {"extendedResourceName": COUNT, "selectors": [selector]}}
    api.create_device_class(served)
    yield
    api.delete_device_class(DOMAIN)
    api.delete_resource_slice(NODE)
    admin.delete_node(NODE)


@pytest.mark.usefixtures("node", "scheduler")
@pytest.mark.parametrize(("setting", "waits"), [("hami", True), ("claims", False)])
def test_a_pod_with_a_part_of_a_card_beside_the_count_waits(
    control_plane: ControlPlane, admin: CoreV1Api, namespace: str, tmp_path: Path, setting: str, waits: bool
) -> None:
    # The second family is that of the pod by which registered() finds out that the webhook is asked.
    families = json.dumps([family(DOMAIN), family("nvidia.com")])
    config = f"cluster: {{extendedResources: {setting}}}\nresources: {families}\n"
    with registered(control_plane, namespace, tmp_path, config=config):
        pod = gpu_pod("train", {}, gpu_container(resources={"limits": {COUNT: "2"}}))
        pod["spec"] |= {"schedulerName": SCHEDULER, "nodeSelector": {"for": SCHEDULER}}
        limits = created(control_plane, namespace, pod)["spec"]["containers"][0]["resources"]["limits"]
        assert (f"{DOMAIN}/gpucores" in limits) is waits

        def found() -> Any:
            return admin.read_namespaced_pod("train", namespace)

        until(lambda: found().spec.node_name or found().status.conditions, "kube-scheduler has looked")
        if waits:
            assert found().spec.node_name is None
            assert f"Insufficient {DOMAIN}/gpucores" in found().status.conditions[0].message
        else:
            assert found().spec.node_name == NODE
            assert found().status.extended_resource_claim_status is not None
    admin.delete_namespaced_pod("train", namespace, grace_period_seconds=0)

"""Taints of GPUs that are ill, at a real API server and a real kube-scheduler, with the agent's own permissions."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ResourceV1Api

from tests.control_plane.accounts import without
from tests.control_plane.agents import AgentSite, agent_site, running_agent
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.kube_scheduler import make_ready, running_kube_scheduler
from tests.control_plane.taint_rules import DRIVER, GATES, Rules, device, publish
from tests.go_programs.catalogue import KUBE_SCHEDULER
from tests.go_programs.left_out import GetProgram
from tests.hardware.topology.machines import hgx_h100, uuid, with_switch_links
from tests.nvml import machines as played
from tests.nvml.stub import nvml_library
from tests.programs.agent.waking import wake
from tests.programs.server.conftest import until
from webhook.cluster.api.permissions import AGENT, AGENT_TAINTS, Scope
from webhook.programs.agent.status import Count, TaintStatus
from webhook.words.node_names import taint_rule_name

__all__ = ["nvml_library"]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("without_proxy")]

SCHEDULER = "of-taints"
DEGRADED = with_switch_links(hgx_h100(), 3, 12)
# The name of a device is not the index of its card.
DEVICES = (device("gpu-5", uuid=uuid(3)), device("gpu-3", uuid=uuid(4)), device("gpu-0", bus_id="0000:1b:00.0"))


@pytest.fixture
def site(plane: ControlPlane, tmp_path: Path) -> Iterator[AgentSite]:
    """A new node with three devices of a DRA driver; no rule is left behind."""
    with agent_site(plane, tmp_path, AGENT + AGENT_TAINTS) as found:
        publish(found.admin.api_client, found.node, DEVICES)
        yield found
        withdraw(found)


def withdraw(site: AgentSite) -> None:
    """Rules and devices are gone."""
    for rule in rules(site).all():
        rules(site).delete(rule["metadata"]["name"])
    ResourceV1Api(site.admin.api_client).delete_collection_resource_slice()


def rules(site: AgentSite) -> Rules:
    return Rules(site.control_plane)


def said(site: AgentSite, device_name: str, taint: str) -> str:
    return f"{DRIVER}/{site.node}/{device_name} {taint}"


def test_a_card_with_links_down_is_tainted_and_freed_when_they_are_back(site: AgentSite) -> None:
    agent = site.agent(taint_devices=True)
    site.round(agent, hgx_h100())
    assert rules(site).all() == []
    site.round(agent, DEGRADED)
    (rule,) = before = rules(site).all()
    assert rules(site).said() == [said(site, "gpu-5", "gpu.topology/nvlink-down=6:NoSchedule")]
    assert rule["metadata"]["name"] == taint_rule_name(site.node, DRIVER, site.node, "gpu-5")
    assert rule["metadata"]["labels"] == {"gpu.topology/node": site.node}
    assert rule["metadata"]["annotations"] == {"gpu.topology/gpu-uuid": uuid(3)}
    assert [owner["name"] for owner in rule["metadata"]["ownerReferences"]] == [site.node]
    agent = site.agent(taint_devices=True)  # as after a restart
    site.round(agent)
    assert (rules(site).all(), agent.status.taints) == (before, TaintStatus(served=True, rules=1))
    rules(site).patch(rule["metadata"]["name"], {"spec": {"taint": {"effect": "None"}}})  # by a person
    site.round(agent, with_switch_links(hgx_h100(), 3, 10))
    assert rules(site).said() == [said(site, "gpu-5", "gpu.topology/nvlink-down=8:None")]
    site.round(agent, hgx_h100())
    assert (rules(site).all(), agent.status.taints) == ([], TaintStatus(served=True))
    assert site.events("Taint") == [
        ("GpuTainted", f"GT710: resource claims are no longer given these GPUs: {uuid(3)}"),
        ("GpuUntainted", f"GT711: resource claims may be given these GPUs again: {uuid(3)}"),
    ]


def test_an_api_server_without_the_rules_is_told_of_once_and_fails_no_round(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    with agent_site(control_plane, tmp_path, AGENT) as site:
        agent = site.agent(taint_devices=True)
        for _ in range(2):
            site.round(agent, DEGRADED)
        told = [line["text"] for line in site.lines() if line["message"] == "taints"]
        assert [text.partition(":")[0] for text in told] == ["GT712"]
        assert agent.status.taints == TaintStatus(served=False, unmatched=1)
        assert agent.status.count(Count.API_ERRORS) == {}


@pytest.mark.parametrize(
    ("resource", "verb"), [(each.resource, verb) for each in AGENT_TAINTS for verb in each.verbs], ids=str
)
def test_every_permission_is_needed(plane: ControlPlane, tmp_path: Path, resource: str, verb: str) -> None:
    with agent_site(plane, tmp_path, without(AGENT + AGENT_TAINTS, Scope.CLUSTER, resource, verb)) as site:
        publish(site.admin.api_client, site.node, DEVICES)
        agent, failures = site.agent(taint_devices=True), ""
        for site.topology in (DEGRADED, with_switch_links(hgx_h100(), 3, 10), hgx_h100()):
            site.seconds += 600.0
            wake(agent)
            failures += agent.status.failure
        assert re.search(rf"{resource}[^:]* is forbidden: .* cannot {verb} resource", failures), failures
        assert site.label() == "healthy"
        withdraw(site)


@pytest.fixture(scope="module")
def scheduler(plane: ControlPlane, go_program: GetProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """It and the API server have the feature gate."""
    directory = tmp_path_factory.mktemp("scheduler-of-taints")
    program = go_program(KUBE_SCHEDULER)
    with running_kube_scheduler(program, plane.kubeconfig, directory, name=SCHEDULER, options=[GATES]):
        yield


def claim_pod(site: AgentSite, name: str, count: int) -> None:
    """A pod with a claim for so many whole cards."""
    request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": count}}
    claim: Any = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    ResourceV1Api(site.admin.api_client).create_namespaced_resource_claim(site.namespace, claim)
    container = {"name": "main", "image": "x", "resources": {"claims": [{"name": "gpus"}]}}
    spec = {
        "schedulerName": SCHEDULER,
        "nodeSelector": {"kubernetes.io/hostname": site.node},
        "resourceClaims": [{"name": "gpus", "resourceClaimName": name}],
        "containers": [container],
    }
    body: Any = {"metadata": {"name": name}, "spec": spec}
    site.admin.create_namespaced_pod(site.namespace, body)


def allocated(site: AgentSite, name: str) -> list[str]:
    claims = ResourceV1Api(site.admin.api_client)
    answer: Any = claims.read_namespaced_resource_claim(name, site.namespace, _preload_content=False)
    status = json.loads(answer.data).get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
    return sorted(one["device"] for one in results)


def why_it_waits(site: AgentSite, name: str) -> str:
    pod: Any = site.admin.read_namespaced_pod(name, site.namespace)
    return " ".join(condition.message or "" for condition in pod.status.conditions or [])


@pytest.fixture
def device_class(site: AgentSite) -> Iterator[None]:
    """Of the devices; the node takes pods."""
    make_ready(site.admin, site.node)
    api = ResourceV1Api(site.admin.api_client)
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    body: Any = {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}
    api.create_device_class(body)
    yield
    api.delete_device_class(DRIVER)


@pytest.mark.long
@pytest.mark.usefixtures("scheduler", "device_class")
def test_the_scheduler_gives_no_claim_a_card_with_links_down_until_they_are_back(
    site: AgentSite, nvml_library: Path, tmp_path: Path
) -> None:
    with running_agent(site, nvml_library, tmp_path / "root", "--port", "0", "--taint-devices") as play:
        play(played.hgx_h100().with_links_down(3, 0, 1))
        tainted = [said(site, "gpu-5", "gpu.topology/nvlink-down=2:NoSchedule")]
        until(lambda: rules(site).said() == tainted, "the rule")
        claim_pod(site, "two", 2)
        until(lambda: allocated(site, "two") == ["gpu-0", "gpu-3"], "the two cards that are well")
        claim_pod(site, "one", 1)
        until(lambda: "cannot allocate all claims" in why_it_waits(site, "one"), "the scheduler has looked")
        assert allocated(site, "one") == []
        play(played.hgx_h100())
        until(lambda: allocated(site, "one") == ["gpu-5"], "the card whose links are back")
    assert rules(site).all() == []


@pytest.mark.long
@pytest.mark.usefixtures("scheduler", "device_class")
def test_without_the_option_the_scheduler_gives_claims_the_card_with_links_down(
    site: AgentSite, nvml_library: Path, tmp_path: Path
) -> None:
    with running_agent(site, nvml_library, tmp_path / "root", "--port", "0") as play:
        play(played.hgx_h100().with_links_down(3, 0, 1))
        until(lambda: site.label() == "degraded", "the label")
        claim_pod(site, "three", 3)
        until(lambda: allocated(site, "three") == ["gpu-0", "gpu-3", "gpu-5"], "all cards")

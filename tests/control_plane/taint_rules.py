"""DeviceTaintRules, and what a DRA driver and an administrator write there."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from kubernetes.client import ApiClient, ResourceV1Api

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import request

GATES = "--feature-gates=DRADeviceTaintRules=true"
"""Of the scheduler; the API server of the fixture ``plane`` has it too."""
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
DRIVER = "gpu.nvidia.com"


@dataclass(frozen=True)
class Rules:
    """The DeviceTaintRules, for an administrator or the user of ``kubeconfig``."""

    control_plane: ControlPlane
    kubeconfig: Path | None = None

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Whatever the answer is."""
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        said = {} if body is None else {"json": body, "headers": {"Content-Type": content}}
        return request(self.control_plane, method, path, kubeconfig=self.kubeconfig, **said)

    def all(self) -> list[Any]:
        """By their names."""
        found: list[Any] = self.ask("GET", RULES).raise_for_status().json()["items"]
        return sorted(found, key=lambda rule: rule["metadata"]["name"])

    def said(self) -> list[str]:
        """Each as ``driver/pool/device key=value:effect``."""
        return [said(rule) for rule in self.all()]

    def create(self, rule: Any) -> None:
        """It must be accepted."""
        self.ask("POST", RULES, rule).raise_for_status()

    def patch(self, name: str, patch: Any) -> None:
        """A JSON merge patch."""
        self.ask("PATCH", f"{RULES}/{name}", patch).raise_for_status()

    def delete(self, name: str) -> None:
        """It must be there."""
        self.ask("DELETE", f"{RULES}/{name}").raise_for_status()


def said(rule: Any) -> str:
    """``driver/pool/device key=value:effect``."""
    selector, taint = rule["spec"].get("deviceSelector") or {}, rule["spec"]["taint"]
    device = "/".join(selector.get(part, "*") for part in ("driver", "pool", "device"))
    return f"{device} {taint['key']}={taint.get('value', '')}:{taint['effect']}"


def rule_manifest(name: str, *, label: str | None, key: str = "gpu.topology/nvlink-down", **selector: str) -> Any:
    """A rule as anybody who may write them can write it."""
    labels = {"gpu.topology/node": label} if label else {}
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name, "labels": labels},
        "spec": {"deviceSelector": selector, "taint": {"key": key, "value": "1", "effect": "NoSchedule"}},
    }


def publish(client: ApiClient, node: str, devices: Sequence[Any], *, generation: int = 1, count: int = 1) -> None:
    """What NVIDIA's driver writes: a slice of a generation that has ``count`` of them."""
    pool = {"name": node, "generation": generation, "resourceSliceCount": count}
    body: Any = {
        "metadata": {"name": f"{node}-{generation}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices)},
    }
    ResourceV1Api(client).create_resource_slice(body)


def device(name: str, *, uuid: str = "", bus_id: str = "") -> Any:
    """As NVIDIA's driver names its attributes."""
    attributes = {"type": {"string": "gpu"}}
    if uuid:
        attributes["uuid"] = {"string": uuid}
    if bus_id:
        attributes["resource.kubernetes.io/pciBusID"] = {"string": bus_id}
    return {"name": name, "attributes": attributes}

"""Pods that somebody wants explained, and short questions to the report."""

from typing import Any

import msgspec

from tests.hardware.topology import machines
from tests.judge import HAMI_2_9, policy
from tests.pods import ALL_ALLOWED, Manifest
from webhook.cli.workload import apply_in_place
from webhook.decisions.admit.admission import admit
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.request.assigned_node import node_of
from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.hardware.topology.model import NodeTopology
from webhook.insight.explain.evidence import Evidence
from webhook.insight.explain.explain import explain
from webhook.insight.explain.findings import Finding, Report
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Namespace, Pod
from webhook.words.version import Version

H20 = machines.H20_UUIDS
HAMI_2_8 = ClusterFacts(hami=Version(2, 8), kubernetes=Version(1, 33))
UNKNOWN_HAMI = ClusterFacts(kubernetes=Version(1, 33))


def on(manifest: Manifest, node: str, *segments: list[str]) -> Manifest:
    """The pod after HAMi 2.9 gave its containers these GPUs and the API server bound it."""
    annotations = manifest["metadata"].get("annotations") or {}
    allocated = "".join("".join(f"{uuid},NVIDIA,97871,100:" for uuid in segment) + ";" for segment in segments)
    allocation = {"hami.io/vgpu-node": node, "hami.io/vgpu-devices-allocated": allocated}
    metadata = manifest["metadata"] | {"annotations": annotations | allocation}
    return manifest | {"metadata": metadata, "spec": manifest["spec"] | {"nodeName": node}}


def existing(manifest: Manifest) -> Manifest:
    """The pod as the API server has it, whatever admission would say of a new one."""
    return manifest | {"metadata": manifest["metadata"] | {"uid": "uid-1"}}


def annotated(manifest: Manifest, **annotations: str) -> Manifest:
    """The pod with more of our annotations: ``cuda_visible_devices_0`` is ``gpu.topology/cuda-visible-devices.0``."""
    ours = {f"gpu.topology/{key}": value for key, value in annotations.items()}
    metadata = manifest["metadata"]
    return manifest | {"metadata": metadata | {"annotations": (metadata.get("annotations") or {}) | ours}}


def injected(
    manifest: Manifest,
    namespace: Namespace = ALL_ALLOWED,
    cluster: ClusterFacts = HAMI_2_9,
    rules: AdmitPolicy | None = None,
) -> Manifest:
    """The pod as admission changes it."""
    outcome = admit(decoded(manifest), namespace, rules or policy(), cluster)
    assert outcome.operations, outcome
    changed: Manifest = apply_in_place(msgspec.json.decode(to_json(manifest)), outcome.operations)
    return changed


def decoded(manifest: Manifest) -> Pod:
    return msgspec.json.decode(to_json(manifest), type=Pod)


def known(topology: NodeTopology, **more: Any) -> Sources:
    """A topology that the agent published."""
    return Sources(published=KnownNode(topology, origin=Origin.AGENT), **more)


def told(
    manifest: Manifest,
    namespace: Namespace = ALL_ALLOWED,
    cluster: ClusterFacts = HAMI_2_9,
    rules: AdmitPolicy | None = None,
    sources: Sources | None = None,
    others: tuple[Manifest, ...] | None = None,
    **more: Any,
) -> Report:
    """What is said of a pod."""
    found = decoded(manifest)
    return explain(
        Evidence(
            pod=found,
            namespace=namespace,
            policy=rules or policy(),
            cluster=cluster,
            sources=sources or known(machines.h20()),
            node=node_of(found),
            others=None if others is None else tuple(map(decoded, others)),
            **more,
        )
    )


def finding(report: Report, condition: str) -> Finding:
    """The one of this name."""
    (found,) = (finding for finding in report.findings if finding.condition == condition)
    return found


def said(report: Report, condition: str) -> tuple[str, str]:
    """Verdict and evidence."""
    found = finding(report, condition)
    return str(found.verdict), found.evidence


def failing(report: Report) -> list[str]:
    """The conditions that fail, in order."""
    return [finding.condition for finding in report.findings if finding.fails]

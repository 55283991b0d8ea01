"""Hints of NVLinks that seem unused, in the findings of a cluster and in what is kept of it."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.command import gpu_topology
from tests.hardware.traffic.windows import MB, steady
from tests.insight.analyze.clusters import AT, Cluster, Object, cards, running
from webhook.cluster.redaction.objects import kept
from webhook.hardware.traffic.model import Traffic, Window, format_traffic
from webhook.insight.analyze.diagnosis import Severity
from webhook.words import names

STARTED = (AT - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")


def quiet(windows: tuple[Window, ...], *, age: float = 20.0, text: str | None = None) -> Cluster:
    """A cluster in which one pod runs whose node's agent tells of these windows."""
    cluster = Cluster()
    node = next(name for kind, _, name in cluster.objects if kind == "Node")
    cluster.add(running("quiet", node, 0, 1) | {"status": {"phase": "Running", "startTime": STARTED}})
    traffic = Traffic(at=AT - timedelta(seconds=age), cards=dict.fromkeys(cards(node, *range(8)), windows))
    lease = cluster.get("Lease", f"gpu-topology-{node}", "gpu-topology-nodes")
    annotation = format_traffic(traffic) if text is None else text
    lease["metadata"]["annotations"] = {names.TRAFFIC: annotation, "other": "secret"}
    return cluster


def test_nvlink_that_seems_unused_is_a_hint_of_the_pod() -> None:
    (found,) = quiet(steady()).analyzed()
    assert (found.severity, found.code, str(found.holder)) == (Severity.HINT, "GT900", "Pod team-a/quiet")


@pytest.mark.parametrize("windows", [steady(nvlink=MB), steady(busy=0.0), steady(nvlink=None), steady(pcie=None)])
def test_all_else_is_no_finding(windows: tuple[Window, ...]) -> None:
    assert quiet(windows).analyzed() == []


@pytest.mark.parametrize("text", ["", "{}", "[" * 20000, '{"at": 5}', "\x1b[31m"])
def test_what_an_agent_says_badly_is_neither_believed_nor_kept(text: str) -> None:
    cluster = quiet(steady(), text=text)
    assert cluster.analyzed() == []
    lease = next(found for (kind, _, _), found in cluster.objects.items() if kind == "Lease" and _has_traffic(found))
    assert "annotations" not in (kept(lease) or {})["metadata"]


def _has_traffic(lease: Object) -> bool:
    return names.TRAFFIC in lease["metadata"].get("annotations", {})


def test_of_a_lease_only_traffic_is_kept() -> None:
    cluster = quiet(steady())
    lease = next(found for (kind, _, _), found in cluster.objects.items() if kind == "Lease" and _has_traffic(found))
    assert (kept(lease) or {})["metadata"]["annotations"].keys() == {names.TRAFFIC}


@pytest.mark.parametrize("fail_on", ["error", "warning", "info", "hint"])
def test_no_exit_code_depends_on_a_hint(fail_on: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(quiet(steady()).raw())}))
    done = gpu_topology("analyze", "-f", path, "-o", "json", "--fail-on", fail_on)
    assert done.code == 0, done.out + done.err
    assert json.loads(done.out)["counts"]["hint"] == 1

"""``gpu-topology verify --publish`` at a real API server, with what a stand-in for the driver let measure."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from kubernetes.client import CoreV1Api, EventsV1Api

from tests.cli.command import ROOT, Done, gpu_topology
from tests.control_plane.accounts import permitted, without
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.test_explain import MakeSite, Site, make_site
from tests.cuda.machines import Way
from tests.cuda.stub import PlayBench, bench_of, cuda_libraries, play_bench
from tests.nvml import machines
from tests.nvml.stub import nvml_library, play
from tests.programs.verify.test_run import BenchOf, measured
from webhook.cluster.api.permissions import EXPLAIN, PUBLISH, Permission, Scope
from webhook.hardware.measurement.report import format_report

__all__ = ["bench_of", "cuda_libraries", "make_site", "nvml_library", "play", "play_bench"]

pytestmark = pytest.mark.cluster

MEASURED = "gpu.topology/measured"
Publish = Callable[..., Done]


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    """Two pods on a node: ``train`` has GPU0 and GPU1, ``other`` GPU2 and GPU3."""
    found = make_site(EXPLAIN)
    for name, cards in (("train", (0, 1)), ("other", (2, 3))):
        found.create(name, {})
        found.bind(name, (), cards)
    return found


@pytest.fixture
def report(bench_of: BenchOf, play_bench: PlayBench, tmp_path: Path) -> Path:
    """Of the whole node: from GPU0 to GPU1 the bytes go over PCIe."""
    found = measured(play_bench(bench_of(machines.h20()).with_way(0, 1, Way(gbps=48.0))), all_reduce=False)
    path = tmp_path / "report.json"
    path.write_text(format_report(found))
    return path


@pytest.fixture
def publish(site: Site, control_plane: ControlPlane, report: Path) -> Publish:
    """Publishes as an account with these permissions."""
    accounts = iter(range(100))

    def run(name: str, permissions: tuple[Permission, ...] = PUBLISH) -> Done:
        account = f"publisher-{next(accounts)}"
        kubeconfig = permitted(site.admin, control_plane, site.namespace, account, permissions)
        options = ("--publish", name, "-n", site.namespace, "--kubeconfig", kubeconfig)
        return gpu_topology("verify", "-f", report, *options)

    return run


def annotation(site: Site, name: str) -> str | None:
    metadata = site.admin.read_namespaced_pod(name, site.namespace).metadata
    return (metadata.annotations or {}).get(MEASURED) if metadata else None


def told(admin: CoreV1Api, namespace: str) -> list[tuple[str | None, str | None, str]]:
    """Type, reason and note of the Events of this command."""
    found = EventsV1Api(admin.api_client).list_namespaced_event(namespace).items
    mine = [event for event in found if event.reporting_controller == "gpu.topology/verify"]
    return [(event.type, event.reason, event.note or "") for event in mine]


def test_a_pod_with_a_slower_way_has_annotation_event_and_hint(site: Site, publish: Publish) -> None:
    done = publish("train")
    assert done.code == 1  # a verdict is worse, as without --publish
    said = "GT906: only 1 of 2 ways between 2 GPUs are known to be as fast as expected; the slowest has 4"
    assert f"published on pod {site.namespace}/train: {said}" in done.err
    assert '"verdict":"not-nvlink"' in (annotation(site, "train") or "")
    ((kind, reason, note),) = told(site.admin, site.namespace)
    assert (kind, reason) == ("Warning", "BandwidthBelowExpected")
    assert note.startswith(said)
    explained = site.explain("train")
    assert "GT902" in explained.out
    assert "the slowest is GPU0 to GPU1, 4" in explained.out


def test_without_the_right_to_patch_it_says_which_rights_are_needed(site: Site, publish: Publish) -> None:
    done = publish("train", without(PUBLISH, Scope.PODS, "pods", "patch"))
    assert done.code == 1
    assert "patch pod" in done.err
    assert "Who publishes must be allowed to get and patch the pod" in done.err
    assert annotation(site, "train") is None


def test_without_the_right_to_create_events_the_annotation_is_there_all_the_same(site: Site, publish: Publish) -> None:
    done = publish("other", without(PUBLISH, Scope.PODS, "events", "create"))
    assert "left out: create Event" in done.err
    assert annotation(site, "other") is not None
    assert told(site.admin, site.namespace) == []


def test_the_role_of_the_example_is_what_is_needed() -> None:
    documents = yaml.safe_load_all((ROOT / "examples/verify/publish.yaml").read_text())
    (role,) = (document for document in documents if document["kind"] == "Role")
    assert [(rule["apiGroups"][0], rule["resources"][0], tuple(rule["verbs"])) for rule in role["rules"]] == [
        (each.group, each.resource, each.verbs) for each in PUBLISH
    ]

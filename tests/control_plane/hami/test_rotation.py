"""Certificate and authority are replaced while pods are created, scheduled and bound: no call of our webhook fails."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from certs.certificate import issue, load_authorities
from tests.control_plane.api_metrics import asked
from tests.control_plane.control_plane import CERTIFICATE_LIFETIME
from tests.control_plane.hami.cluster import Cluster, topologies
from tests.control_plane.hami.conftest import NewTeam
from tests.control_plane.hami.pods import container, pod
from tests.control_plane.hami.rush import rush_of
from tests.control_plane.hami.scheduler import USER
from tests.control_plane.hami.values import fault_of
from tests.control_plane.installation import CONFIGURATION, NAMESPACE, registered
from tests.control_plane.managed import Site, managed_site, shown
from tests.control_plane.service import running_service
from tests.figures import ShowFigures
from tests.programs.server.conftest import RunningServer, until

pytestmark = [pytest.mark.cluster, pytest.mark.parametrize("release", ["2.10.0"], indirect=True), pytest.mark.long]

WEBHOOKS = ("pods.gpu.topology", "bindings.gpu.topology")
SOME = 5
CONFIG = f"""\
cluster: {{hamiVersion: 2.10.0, kubernetesVersion: "1.36"}}
certificates:
  webhookConfiguration: {CONFIGURATION}
  additionalNames: [127.0.0.1]
  checkSeconds: 1
  settleSeconds: 10
  overlapSeconds: 10
"""


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    plane = cluster.control_plane
    with managed_site(plane, NAMESPACE, tmp_path, Path("kubernetes"), CONFIGURATION, CONFIG) as site:
        yield site


@pytest.fixture
def servers(cluster: Cluster, site: Site) -> Iterator[list[RunningServer]]:
    """Two that the API server asks by way of a Service, once they have written a caBundle."""
    started = [site.start(), site.start()]
    with running_service([server.port for server in started]) as port:
        ours = replace(cluster.ours, url=f"https://127.0.0.1:{port}", authority=b"")
        with registered(ours, ours.registration(scheduler=USER)):
            until(lambda: site.bundle() != b"", "a caBundle")
            yield started


def two_gpus(name: str) -> dict[str, Any]:
    return pod(name, container(gpus=2), annotations={"profile": "exclusive", "hami.io/node-scheduler-policy": "spread"})


def test_no_creation_and_no_binding_fails_while_certificate_and_authority_rotate(
    cluster: Cluster, new_team: NewTeam, site: Site, servers: list[RunningServer], show_figures: ShowFigures
) -> None:
    team, machines = new_team(injection="enabled"), {each.node: each for each in topologies()}
    until(lambda: "gpu.topology/injected" in str(team.asks_for(two_gpus("probe"), dry_run=True).body), "our webhook")
    old, before = load_authorities(site.bundle()), [asked(cluster.control_plane, name) for name in WEBHOOKS]
    pods = (two_gpus(f"pod-{number}") for number in itertools.count())
    with rush_of(team, pods, lambda bound: fault_of(bound, machines[bound["spec"]["nodeName"]])) as rush:

        def goes_on() -> None:
            wanted = len(rush.ended) + SOME
            rush.goes_on_until(lambda: len(rush.ended) >= wanted, "more pods")

        def rotates(*arguments: str) -> None:
            known = {shown(server) for server in servers}
            assert site.certs("rotate", *arguments).returncode == 0
            rush.goes_on_until(lambda: known.isdisjoint(map(shown, servers)), "a new certificate")
            goes_on()

        goes_on()
        rotates()
        rotates("--authority")
        rush.goes_on_until(lambda: len(load_authorities(site.bundle())) == 1, "the end of the overlap")
        goes_on()
    after = [asked(cluster.control_plane, name) for name in WEBHOOKS]
    assert load_authorities(site.bundle()) != old
    assert rush.faults == []
    assert [refusal for life in rush.lives.values() for refusal in life.refusals] == []
    assert [now.not_reached - then.not_reached for now, then in zip(after, before, strict=True)] == [0, 0]
    with show_figures():
        print(f"\nrotation with HAMi: {len(rush.ended)} pods bound with their values, no call failed")


def test_with_another_authority_at_once_creations_fail(cluster: Cluster, new_team: NewTeam) -> None:
    other = issue(("127.0.0.1",), now=datetime.now(UTC), lifetime=CERTIFICATE_LIFETIME).authority
    ours = replace(cluster.ours, authority=other)
    with registered(ours, ours.registration(scheduler=USER)):
        answer = new_team(injection="enabled").asks_for(two_gpus("train"))
    assert answer.status == 500
    assert "certificate signed by unknown authority" in answer.message

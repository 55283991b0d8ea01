"""Two releases of the chart beside each other at a real API server, and pods that are created the whole time.

Helm installs, upgrades and removes. Servers of this machine answer in place of pods, each with a configuration of its
own, which writes into every pod whose it is.
"""

import base64
import json
import re
import shutil
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from kubernetes.client import AdmissionregistrationV1Api, CoreV1Api, V1ObjectMeta

from tests.chart.generated import CHART
from tests.chart.helm import RELEASE, Helm, documents, pick
from tests.chart.rendered import PLACES
from tests.control_plane.accounts import namespace_for_pods, wait_until_granted
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import apply, find, path_of, request
from tests.control_plane.registration import create_pod, gpu_pod, write_state
from tests.control_plane.test_chart_planner import KINDS, POLICIES, RELEASES, Account, allowed, refused
from tests.figures import ShowFigures
from tests.hardware.topology.machines import h20
from tests.programs.server.conftest import RunningServer, Starter, until
from webhook.cluster.api.permissions import WEBHOOK
from webhook.words.names import INJECTION, REVISION

pytestmark = pytest.mark.cluster

CANARY = f"{RELEASE}-canary"
IS_CANARY = "--set=revision=canary"
PATIENT = "--set=admission.pods.timeoutSeconds=30"
MARK = "SERVED_BY"
"""The variable by which a server marks the pods that it has seen."""
CHANGES = 6
"""How often the answering server of a namespace changes in the long test."""
ENOUGH = 10
"""Pods of each namespace that are created before the next step."""
ASKED = re.compile(r'\{\{- include "gpu-topology.client-config" \(dict "root" \. "path" "([^"]*)"\) \| nindent 4 \}\}')


@dataclass(frozen=True)
class Releases:
    """Helm, for the releases of one namespace."""

    helm: Helm
    control_plane: ControlPlane
    namespace: str

    def tries(self, command: str, *arguments: str | Path, namespace: str = "") -> CompletedProcess[str]:
        """What Helm says, whether it works or not."""
        place = (f"--kubeconfig={self.control_plane.kubeconfig}", f"--namespace={namespace or self.namespace}")
        return self.helm.run(command, *arguments, *place)

    def run(self, command: str, *arguments: str | Path) -> str:
        """Standard output of Helm; it must work."""
        done = self.tries(command, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stored(self, release: str) -> dict[str, Any]:
        """The objects of a release as the API server has them."""
        objects = documents(self.run("get", "manifest", release))
        return {path_of(one): find(self.control_plane, one) for one in objects}


@pytest.fixture
def releases(helm: Helm, control_plane: ControlPlane, namespace: str) -> Iterator[Releases]:
    found = Releases(helm, control_plane, namespace)
    yield found
    for release in (CANARY, RELEASE):
        found.run("uninstall", release, "--no-hooks", "--ignore-not-found")


def test_a_revision_is_installed_beside_the_default_release_and_leaves_it_as_it_was(releases: Releases) -> None:
    releases.run("install", RELEASE, CHART, "--set=revisions={canary}")
    before = releases.stored(RELEASE)
    assert all(before.values())
    said = releases.run("install", CANARY, CHART, IS_CANARY)
    assert "THE DEFAULT RELEASE DOES NOT NAME IT" not in said
    canary = releases.stored(CANARY)
    assert all(canary.values())
    releases.run("upgrade", CANARY, CHART, IS_CANARY, "--set=webhook.replicas=3")
    assert {path: one["metadata"]["uid"] for path, one in releases.stored(CANARY).items()} == {
        path: one["metadata"]["uid"] for path, one in canary.items()
    }
    releases.run("uninstall", CANARY)
    assert [path for path in canary if request(releases.control_plane, "GET", path).status_code != 404] == []
    assert releases.stored(RELEASE) == before  # with the version of each object, which every write changes


def test_a_revision_that_the_policies_of_the_default_release_do_not_name_is_told(releases: Releases) -> None:
    releases.run("install", RELEASE, CHART)
    assert "THE DEFAULT RELEASE DOES NOT NAME IT" in releases.run("install", CANARY, CHART, IS_CANARY)


@pytest.mark.parametrize(
    ("of_default", "of_canary", "complaint"),
    [
        (
            "placement.mode=observe",
            "placement.mode=off",
            "placement.mode: expected observe, because the planner of the",
        ),
        ("placement.mode=on", "placement.mode=observe", "placement.mode: expected on, because the planner of the"),
        ("agent.namespace=gpu-nodes", "agent.enabled=true", "agent: expected gpu-nodes as the namespace of topologies"),
        ("fullnameOverride=zz", "agent.enabled=true", "expected the default release in namespace"),
    ],
)
def test_a_revision_that_contradicts_the_default_release_is_refused(
    releases: Releases, of_default: str, of_canary: str, complaint: str
) -> None:
    releases.run("install", RELEASE, CHART, f"--set={of_default}")
    done = releases.tries("install", CANARY, CHART, IS_CANARY, f"--set={of_canary}")
    assert done.returncode == 1
    assert complaint in done.stderr
    releases.run("install", CANARY, CHART, IS_CANARY, f"--set={of_default}")


def test_a_revision_without_a_default_release_is_refused_and_so_is_one_in_another_namespace(releases: Releases) -> None:
    alone = releases.tries("install", CANARY, CHART, IS_CANARY)
    releases.run("install", RELEASE, CHART)
    elsewhere = releases.tries("install", CANARY, CHART, IS_CANARY, namespace="default")
    for done in (alone, elsewhere):
        assert done.returncode == 1
        assert "because its planner and agents serve every revision, found no Secret" in done.stderr


def test_a_default_release_of_an_earlier_chart_would_serve_the_namespaces_of_revisions_too(
    releases: Releases, tmp_path: Path
) -> None:
    earlier = Path(shutil.copytree(CHART, tmp_path / "chart"))
    registration = earlier / "templates" / "webhook" / "registration.yaml"
    text = registration.read_text(encoding="utf-8")
    line = '    {{- include "gpu-topology.revision-expression" . | nindent 4 }}\n'
    assert text.count(line) == 2
    registration.write_text(text.replace(line, ""), encoding="utf-8")
    releases.run("install", RELEASE, earlier)
    done = releases.tries("install", CANARY, CHART, IS_CANARY)
    assert done.returncode == 1
    assert "found one of an earlier chart. Upgrade it first" in done.stderr
    releases.run("upgrade", RELEASE, CHART)
    releases.run("install", CANARY, CHART, IS_CANARY)


@dataclass
class Load:
    """Pods with GPUs that are created in several namespaces, one after the other, until the end."""

    control_plane: ControlPlane
    namespaces: tuple[str, ...]
    served: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    """Namespace and name of each pod, and which servers have marked it."""
    lost: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until it is told to end."""
        for number in count():
            for namespace in self.namespaces:
                if self.ended.is_set():
                    return
                self._create(namespace, f"train-{number}")

    def _create(self, namespace: str, name: str) -> None:
        answer = create_pod(self.control_plane, namespace, gpu_pod(name, {}))
        if answer.status != 201:
            self.lost.append(f"{namespace}/{name}: {answer.status} {answer.message}")
            return
        self.served.append((namespace, name, marks(answer.body)))

    def wait_for(self, namespace: str, *servers: str) -> None:
        """Returns once these servers, and no others, have answered for some pods of the namespace.

        Meanwhile some pods of other namespaces have been created too.
        """
        done = len(self.served)

        def is_so() -> bool:
            later = self.served[done:]
            by = [found for place, _, found in later if place == namespace]
            others = [place for place, _, _ in later if place != namespace]
            return not self.lost and by[-ENOUGH:] == [servers] * ENOUGH and len(others) >= ENOUGH

        until(lambda: bool(self.lost) or is_so(), f"pods of {namespace} that {servers} have answered for")
        assert self.lost == []


@contextmanager
def creating(control_plane: ControlPlane, *namespaces: str) -> Iterator[Load]:
    """Pods are created in these namespaces for as long as the context lasts."""
    load = Load(control_plane, namespaces)
    thread = threading.Thread(target=load.run)
    thread.start()
    try:
        yield load
    finally:
        load.ended.set()
        thread.join()


def marks(pod: dict[str, Any]) -> tuple[str, ...]:
    """Which servers have marked the pod."""
    variables = pod["spec"]["containers"][0].get("env", [])
    return tuple(variable["value"] for variable in variables if variable["name"] == MARK)


@dataclass
class Servers:
    """Servers by what they write into pods, and charts whose registration leads to them."""

    starter: Starter
    directory: Path
    state: Path
    running: dict[str, RunningServer] = field(default_factory=dict)

    def chart(self, name: str) -> Path:
        """Starts a server; returns a chart that registers it."""
        config = f"defaults: {{env.{MARK}: {name}}}\n"
        server = self.running[name] = self.starter(state=self.state, config=config)
        chart = Path(shutil.copytree(CHART, self.directory / f"chart-of-{name}"))
        registration = chart / "templates" / "webhook" / "registration.yaml"
        bundle = base64.b64encode(server.authority.read_bytes()).decode()
        address = rf"\n    url: {server.url}\1\n    caBundle: {bundle}"
        text, replaced = ASKED.subn(address, registration.read_text(encoding="utf-8"))
        assert replaced == 2
        registration.write_text(text, encoding="utf-8")
        return chart

    def reviewers(self) -> dict[tuple[str, str], set[str]]:
        """Which servers were asked about each pod, by its namespace and name."""
        found: dict[tuple[str, str], set[str]] = {}
        for name, server in self.running.items():
            for line in server.lines():
                if "outcome" in line:
                    found.setdefault((line["namespace"], line["name"]), set()).add(name)
        return found


@pytest.fixture
def teams(admin: CoreV1Api, namespace: str) -> Iterator[tuple[str, str]]:
    """Two namespaces that opted in."""
    names = (f"{namespace}-stays", f"{namespace}-moves")
    for name in names:
        namespace_for_pods(admin, V1ObjectMeta(name=name, labels={INJECTION: "enabled"}))
    yield names
    for name in names:
        admin.delete_collection_namespaced_pod(name, grace_period_seconds=0)


@pytest.fixture
def servers(tmp_path: Path, teams: tuple[str, str]) -> Iterator[Servers]:
    state = write_state(tmp_path / "state", teams[0], h20(), {})
    first = (state / "namespaces" / "team.yaml").read_text(encoding="utf-8")
    (state / "namespaces" / "other.yaml").write_text(first.replace(teams[0], teams[1]), encoding="utf-8")
    (tmp_path / "servers").mkdir()
    starter = Starter(tmp_path / "servers")
    try:
        yield Servers(starter, tmp_path, state)
    finally:
        starter.stop_all()


def label(admin: CoreV1Api, namespace: str, revision: str | None) -> None:
    admin.patch_namespace(namespace, {"metadata": {"labels": {REVISION: revision}}})


def test_no_pod_is_lost_while_a_revision_comes_serves_a_namespace_and_goes_and_during_an_upgrade_and_its_way_back(
    releases: Releases, servers: Servers, teams: tuple[str, str], admin: CoreV1Api, show_figures: ShowFigures
) -> None:
    stays, moves = teams
    releases.run("install", RELEASE, servers.chart("default"), PATIENT, "--set=revisions={canary}")
    until(lambda: served_now(releases, stays) == ("default",), "the default release")
    with creating(releases.control_plane, stays, moves) as load:
        load.wait_for(moves, "default")

        releases.run("install", CANARY, servers.chart("canary"), PATIENT, IS_CANARY)
        load.wait_for(moves, "default")
        label(admin, moves, "canary")
        load.wait_for(moves, "canary")
        label(admin, moves, None)
        load.wait_for(moves, "default")
        label(admin, moves, "canary")
        load.wait_for(moves, "canary")
        label(admin, moves, None)
        load.wait_for(moves, "default")
        releases.run("uninstall", CANARY)
        load.wait_for(moves, "default")

        releases.run("upgrade", RELEASE, servers.chart("upgraded"), PATIENT, "--set=revisions={canary}")
        load.wait_for(moves, "upgraded")
        releases.run("rollback", RELEASE)
        load.wait_for(moves, "default")
    assert load.lost == []
    assert {len(found) for _, _, found in load.served} == {1}
    by = {place: Counter(found[0] for one, _, found in load.served if one == place) for place in teams}
    assert by[stays].keys() == {"default", "upgraded"}
    assert by[moves].keys() == {"default", "canary", "upgraded"}
    reviewers = servers.reviewers()
    assert all(found[0] in reviewers[place, name] for place, name, found in load.served)
    # One pod is created at a time. The API server asks again in the same request, and may know more then.
    several = [pod for pod, names in reviewers.items() if len(names) > 1]
    assert len(several) <= CHANGES
    with show_figures():
        print(f"two releases: {len(load.served)} pods created, {len(load.lost)} lost, {len(several)} seen by two; {by}")


def test_no_pod_is_lost_while_the_default_release_comes_and_goes(
    releases: Releases, servers: Servers, teams: tuple[str, str]
) -> None:
    with creating(releases.control_plane, *teams) as load:
        load.wait_for(teams[0])
        releases.run("install", RELEASE, servers.chart("default"), PATIENT)
        load.wait_for(teams[0], "default")
        releases.run("uninstall", RELEASE, "--no-hooks")
        load.wait_for(teams[0])
    assert load.lost == []


def test_a_namespace_whose_revision_is_not_installed_is_asked_about_by_nobody(
    releases: Releases, servers: Servers, teams: tuple[str, str], admin: CoreV1Api
) -> None:
    """Why its label has to go before the revision, and why analyze looks for it."""
    stays, moves = teams
    releases.run("install", RELEASE, servers.chart("default"), PATIENT)
    until(lambda: served_now(releases, moves) == ("default",), "the default release")
    label(admin, moves, "canary")
    until(lambda: served_now(releases, moves) == (), "a namespace of nobody")
    assert served_now(releases, stays) == ("default",)


def served_now(releases: Releases, namespace: str) -> tuple[str, ...]:
    """Which servers would mark a pod of the namespace."""
    answer = create_pod(releases.control_plane, namespace, gpu_pod("probe", {}), dry_run=True)
    assert answer.status == 201, answer.message
    return marks(answer.body)


def managed_config(releases: Releases, release: str) -> str:
    """The configuration of a release, with certificates that are served as soon as they are there."""
    found = documents(releases.run("get", "manifest", release))
    config: dict[str, Any] = json.loads(pick(found, "Secret", release)["stringData"]["config.yaml"])
    config["certificates"] = config.get("certificates", {}) | {"checkSeconds": 1, "settleSeconds": 1}
    return json.dumps(config)


def authorities(releases: Releases, registration: str) -> set[str]:
    """The bundles of a registration, PEM."""
    with releases.control_plane.client() as client:
        found: Any = AdmissionregistrationV1Api(client).read_mutating_webhook_configuration(registration)
    return {base64.b64decode(one.client_config.ca_bundle or "").decode() for one in found.webhooks}


def shakes_hands(server: RunningServer, name: str, authority: str) -> bool:
    """Whether a client that trusts the authority takes the server for the host of that name."""
    context = ssl.create_default_context(cadata=authority)
    try:
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname=name),
        ):
            return True
    except ssl.SSLCertVerificationError:
        return False


TLS = {RELEASE: "gpu-topology-webhook-tls", CANARY: "gpu-topology-webhook-tls-canary"}
"""The Secrets of the certificates, by registration and account."""


def reads(releases: Releases, kubeconfig: Path) -> set[str]:
    """Of which releases this account may read the registration and the certificates."""

    def may(path: str) -> bool:
        return request(releases.control_plane, "GET", path, kubeconfig=kubeconfig).status_code == 200

    registrations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    secrets = f"/api/v1/namespaces/{releases.namespace}/secrets"
    found = {name: (may(f"{registrations}/{name}"), may(f"{secrets}/{tls}")) for name, tls in TLS.items()}
    return {name for name, may_read in found.items() if any(may_read)}


def test_each_release_has_an_authority_of_its_own_for_its_own_service_and_cannot_reach_the_other(
    releases: Releases, tmp_path: Path
) -> None:
    releases.run("install", RELEASE, CHART)
    releases.run("install", CANARY, CHART, IS_CANARY)
    starter = Starter(tmp_path)
    servers: dict[str, RunningServer] = {}
    bundles: dict[str, str] = {}
    try:
        for name in TLS:
            kubeconfig = releases.control_plane.kubeconfig_for(releases.namespace, name)
            own = ("--namespace", releases.namespace, "--kubeconfig", str(kubeconfig))
            servers[name] = starter(*own, config=managed_config(releases, name), managed=True)
            (bundles[name],) = authorities(releases, name)
            assert reads(releases, kubeconfig) == {name}
        trusted = {
            (server, host, bundle)
            for server, host, bundle in product(TLS, repeat=3)
            if shakes_hands(servers[server], f"{host}.{releases.namespace}.svc", bundles[bundle])
        }
    finally:
        starter.stop_all()
    assert trusted == {(name, name, name) for name in TLS}


@pytest.fixture
def make_account(helm: Helm, control_plane: ControlPlane, admin: CoreV1Api, namespace: str) -> Iterator[Any]:
    """Makes the account of the canary, with roles and policies of both releases. The team is the canary's."""
    team = f"{namespace}-team"
    namespace_for_pods(admin, V1ObjectMeta(name=team, labels={INJECTION: "enabled", REVISION: "canary"}))
    applied: list[dict[str, Any]] = []

    def make(*of_default: str) -> Account:
        default = helm.objects(namespace=namespace, options=[PLACES, *of_default])
        for one in (*default, *helm.objects(namespace=namespace, options=[PLACES, IS_CANARY])):
            if one["kind"] in KINDS + POLICIES:
                applied.append(one)
                assert allowed(apply(control_plane, one))
        name = "gpu-topology-webhook-canary"
        kubeconfig = control_plane.kubeconfig_for(namespace, name)
        wait_until_granted(control_plane, kubeconfig, f"{namespace}-nodes", WEBHOOK, own=namespace)
        found = Account(control_plane, admin, name, namespace, team)
        probe = found.creates("probe")
        # Of several policies that refuse a change the API server names one. No other policy refuses this one.
        spoils = [{"op": "add", "path": "/metadata/annotations/note", "value": "y"}]
        until(lambda: refused_by(found, probe, spoils, "gpu-topology-gates-canary"), "the policies")
        return found

    yield make
    for one in applied:
        request(control_plane, "DELETE", path_of(one))


def refused_by(one: Account, pod: str, operations: Any, policy: str) -> bool:
    answer = one.tries(pod, operations, dry_run=True)
    return answer.status_code == 422 and policy in answer.text


def test_a_revision_lets_pods_of_its_own_namespaces_go_and_no_others(
    make_account: Any, admin: CoreV1Api, namespace: str
) -> None:
    one = make_account("--set=revisions={canary}")
    other = namespace_for_pods(admin, V1ObjectMeta(name=f"{namespace}-other", labels={INJECTION: "enabled"}))
    theirs = one.creates("theirs", namespace=other)
    assert refused(one.tries(theirs, RELEASES, namespace=other), "the namespaces with its label alone")
    assert allowed(one.tries(one.creates("ours"), RELEASES))


def test_a_revision_that_the_policies_do_not_name_lets_no_pod_go(make_account: Any) -> None:
    one = make_account()
    pod = one.creates("ours")
    until(lambda: refused_by(one, pod, RELEASES, "gpu-topology-outputs"), "the policy for annotations and labels")

"""Replicas that share a Secret, a Lease and a webhook configuration at a real API server, round after round.

A round is driven by hand and the replicas' clock is a number, so nothing here waits.
"""

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from kubernetes.client import (
    AdmissionregistrationV1Api,
    ApiClient,
    ApiException,
    CoordinationV1Api,
    CoreV1Api,
)

from certs import ApiFailure, Conflict
from certs.certificate import TlsBundle, issue
from certs.objects import CertificateSpec
from certs.rounds import Pace, Replica
from tests.cli.command import gpu_topology
from tests.control_plane.accounts import permitted
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import make_secret
from webhook.cluster.api import certificates, permissions
from webhook.cluster.api.certificates import CertificateRequests
from webhook.cluster.api.permissions import Permission, Scope
from webhook.cluster.api.service_account import ServiceAccount
from webhook.cluster.api.session import Session, find_access
from webhook.decisions.configuration import CertificateSettings
from webhook.programs.server.certificates import spec_of
from webhook.words import names

pytestmark = pytest.mark.cluster

PACE = Pace(overlap=600.0)
LEASE_S = 4 * PACE.check
NUMBERS = count()


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Driven:
    """A replica that makes a round when it is told to, and what its clients would be shown."""

    requests: CertificateRequests
    replica: Replica
    loop: asyncio.Runner
    shown: list[TlsBundle]

    def round(self) -> list[str]:
        """What it did."""
        self.loop.run(self.replica.round())
        did = [change.what for change in self.replica.changes]
        self.replica.changes.clear()
        return did

    def leave(self) -> None:
        self.loop.run(self.requests.leave())


@dataclass
class Cluster:
    """The namespace of one test, with its own webhook configuration."""

    client: ApiClient
    control_plane: ControlPlane
    spec: CertificateSpec
    clock: Clock = field(default_factory=Clock)

    def secret(self) -> dict[str, bytes]:
        found: Any = CoreV1Api(self.client).read_namespaced_secret(self.spec.secret, self.spec.namespace)
        assert found.type == "gpu.topology/certificates"
        return {key: base64.b64decode(value) for key, value in found.data.items()}

    def spoil(self, **data: bytes | None) -> None:
        body = {
            "data": {
                key.replace("_", "."): None if value is None else base64.b64encode(value).decode()
                for key, value in data.items()
            }
        }
        CoreV1Api(self.client).patch_namespaced_secret(self.spec.secret, self.spec.namespace, body)

    def delete_secret(self) -> None:
        CoreV1Api(self.client).delete_namespaced_secret(self.spec.secret, self.spec.namespace)

    def bundles(self) -> dict[str, bytes]:
        found: Any = AdmissionregistrationV1Api(self.client).read_mutating_webhook_configuration(
            self.spec.configuration
        )
        return {each.name: base64.b64decode(each.client_config.ca_bundle or "") for each in found.webhooks}

    def write_bundle(self, webhook: str, bundle: bytes) -> None:
        patch: Any = {
            "webhooks": [{"name": webhook, "clientConfig": {"caBundle": base64.b64encode(bundle).decode() or None}}]
        }
        AdmissionregistrationV1Api(self.client).patch_mutating_webhook_configuration(
            self.spec.configuration, patch, _content_type="application/strategic-merge-patch+json"
        )

    def holder(self) -> str:
        lease: Any = CoordinationV1Api(self.client).read_namespaced_lease(self.spec.secret, self.spec.namespace)
        return str(lease.spec.holder_identity)

    def wait(self, seconds: float, *driven: Driven) -> list[str]:
        """All of them at their usual pace for so long by their clock; what they did."""
        end, did = self.clock.now + seconds, list[str]()
        while self.clock.now < end:
            for one in driven:
                try:
                    did += one.round()
                except Conflict:
                    continue
            self.clock.now += PACE.check
        return did


@pytest.fixture
def cluster(control_plane: ControlPlane, namespace: str) -> Iterator[Cluster]:
    name = f"certificates-{namespace}"
    with control_plane.client() as client:
        api = AdmissionregistrationV1Api(client)
        api.create_mutating_webhook_configuration(configuration(name, namespace))
        spec = spec_of(CertificateSettings(webhook_configuration=name), namespace)
        make_secret(client, namespace)
        try:
            yield Cluster(client, control_plane, spec)
        finally:
            api.delete_mutating_webhook_configuration(name)


def configuration(name: str, namespace: str) -> Any:
    """Two webhooks of ours and one that belongs to another Service; none of them is ever called."""

    def webhook(name: str, service: str) -> dict[str, Any]:
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"service": {"namespace": namespace, "name": service}},
            "objectSelector": {"matchLabels": {"never": "matched"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        }

    ours = "gpu-topology-webhook"
    webhooks = [webhook("a.example.org", ours), webhook("b.example.org", "another"), webhook("c.example.org", ours)]
    return {"metadata": {"name": name}, "webhooks": webhooks}


@pytest.fixture
def connect(cluster: Cluster, tmp_path: Path) -> Iterator[Any]:
    """Makes a replica in a Pod of its own, by default as the administrator and with the files of a Pod."""
    loop, sessions = asyncio.Runner(), list[Session]()

    def make(kubeconfig: Path | None = None, kind: type[CertificateRequests] = CertificateRequests) -> Driven:
        access = find_access(kubeconfig) if kubeconfig else as_pod(cluster.control_plane, tmp_path)
        sessions.append(Session(access, user_agent=names.WEBHOOK_USER_AGENT, seconds=certificates.SECONDS))
        identity, shown = f"webhook-{next(NUMBERS)}", list[TlsBundle]()
        requests = kind(sessions[-1], cluster.spec, identity=identity, lease_seconds=LEASE_S, clock=cluster.clock)
        return Driven(requests, Replica(requests, cluster.spec, PACE, cluster.clock, shown.append), loop, shown)

    with loop:
        yield make
        for session in sessions:
            loop.run(session.close())


def as_pod(control_plane: ControlPlane, directory: Path) -> ServiceAccount:
    """What the kubelet gives a Pod, for who the kubeconfig of the administrator names."""
    user = json.loads(control_plane.kubeconfig.read_text())["users"][0]["user"]
    (directory / "token").write_text(user["token"])
    (directory / "ca.crt").write_bytes(control_plane.ca_file.read_bytes())
    url = urlsplit(control_plane.url)
    environment = {"KUBERNETES_SERVICE_HOST": url.hostname or "", "KUBERNETES_SERVICE_PORT": str(url.port)}
    return ServiceAccount(directory, environment)


def test_the_first_replica_fills_the_secret_and_registers_it_before_it_serves(cluster: Cluster, connect: Any) -> None:
    one = connect()
    assert one.round() == ["rotate", "registered"]
    assert one.shown == []
    assert one.round() == ["serving"]
    data = cluster.secret()
    assert sorted(data) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert cluster.bundles() == {"a.example.org": data["ca.crt"], "b.example.org": b"", "c.example.org": data["ca.crt"]}
    assert one.shown[0].certificate == data["tls.crt"]
    assert one.round() == []


def authority_of_somebody() -> bytes:
    return issue(["x"], now=datetime.now(UTC), lifetime=timedelta(days=1)).authority


def test_a_leader_that_leaves_gives_the_lease_back(cluster: Cluster, connect: Any) -> None:
    one = connect()
    cluster.wait(30, one)
    one.leave()
    assert cluster.holder() in {"", "None"}


def test_a_leader_that_was_held_up_cannot_bring_an_old_bundle_back(cluster: Cluster, connect: Any) -> None:
    class HeldUp(CertificateRequests):
        async def register(self, patch: dict[str, Any]) -> None:
            cluster.write_bundle("a.example.org", authority_of_somebody())
            await super().register(patch)

    with pytest.raises(Conflict, match=r"\(409\)"):
        connect(kind=HeldUp).round()


def allowed(cluster: Cluster) -> tuple[Permission, ...]:
    return permissions.certificates(cluster.spec.secret, cluster.spec.configuration)


ALL = [
    (permission.scope, permission.resource, verb)
    for permission in permissions.certificates("x", "x")
    for verb in permission.verbs
]


def account(cluster: Cluster, name: str, rights: tuple[Permission, ...]) -> Path:
    """A kubeconfig for a new service account that may do this and nothing else."""
    return permitted(CoreV1Api(cluster.client), cluster.control_plane, cluster.spec.namespace, name, rights)


def live_a_life(cluster: Cluster, replica: Driven) -> None:
    """Everything that a replica ever does."""
    cluster.wait(30, replica)
    cluster.spoil(tls_crt=b"")
    cluster.wait(30, replica)
    patch = {"metadata": {"annotations": {"gpu.topology/rotate": "authority"}}}
    CoreV1Api(cluster.client).patch_namespaced_secret(cluster.spec.secret, cluster.spec.namespace, patch)
    cluster.wait(2 * PACE.settle, replica)
    replica.leave()


def test_the_permissions_suffice(cluster: Cluster, connect: Any) -> None:
    replica = connect(account(cluster, "keeper", allowed(cluster)))
    live_a_life(cluster, replica)
    assert len(replica.shown) == 3
    assert cluster.bundles()["a.example.org"] == cluster.secret()["ca.crt"]


@pytest.mark.parametrize(("scope", "resource", "verb"), ALL, ids=str)
def test_each_permission_is_needed(cluster: Cluster, connect: Any, scope: Scope, resource: str, verb: str) -> None:
    fewer = tuple(
        Permission(each.scope, each.group, each.resource, verbs, each.resource_names)
        for each in allowed(cluster)
        if (verbs := tuple(one for one in each.verbs if (each.scope, each.resource, one) != (scope, resource, verb)))
    )
    replica = connect(account(cluster, "keeper", fewer))
    with pytest.raises(ApiFailure, match=rf'cannot {verb} resource "{resource}"'):
        live_a_life(cluster, replica)


def test_a_stolen_token_of_the_webhook_makes_no_secret_and_changes_none_but_its_own(cluster: Cluster) -> None:
    namespace, own = cluster.spec.namespace, cluster.spec.secret
    admin = CoreV1Api(cluster.client)
    admin.create_namespaced_secret(namespace, {"metadata": {"name": "other"}})  # type: ignore[arg-type]  # no model
    token_of_another = {"annotations": {"kubernetes.io/service-account.name": "default"}}
    with cluster.control_plane.client(account(cluster, "keeper", allowed(cluster))) as client:
        stolen = CoreV1Api(client)

        def make(name: str) -> None:
            body: Any = {"metadata": {"name": name} | token_of_another, "type": "kubernetes.io/service-account-token"}
            stolen.create_namespaced_secret(namespace, body)

        def turn() -> None:
            found: Any = stolen.read_namespaced_secret(own, namespace)
            found.type = "kubernetes.io/service-account-token"
            found.metadata.annotations = {"kubernetes.io/service-account.name": "default"}
            stolen.replace_namespaced_secret(own, namespace, found)

        def apply(name: str) -> None:
            body: Any = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
            stolen.patch_namespaced_secret(
                name, namespace, body, field_manager="x", _content_type="application/apply-patch+yaml"
            )

        assert refused(turn) == 422  # the type is immutable
        body: Any = {"metadata": {"name": "other"}}
        assert refused(lambda: stolen.replace_namespaced_secret("other", namespace, body)) == 403
        assert refused(lambda: stolen.read_namespaced_secret("other", namespace)) == 403
        assert refused(lambda: stolen.list_namespaced_secret(namespace)) == 403
        cluster.delete_secret()
        for name in (own, "new"):
            assert refused(lambda: make(name)) == 403  # noqa: B023 - called at once
            assert refused(lambda: apply(name)) == 403  # noqa: B023 - called at once
        body = {"metadata": {"name": own}, "type": "kubernetes.io/service-account-token"}
        assert refused(lambda: stolen.replace_namespaced_secret(own, namespace, body)) == 404
        make_secret(cluster.client, namespace)
        found: Any = stolen.read_namespaced_secret(own, namespace)
        found.data = {"tls.crt": ""}
        stolen.replace_namespaced_secret(own, namespace, found)
    assert cluster.secret() == {"tls.crt": b""}


def refused(ask: Callable[[], object]) -> int:
    """The code with which the API server refuses."""
    with pytest.raises(ApiException) as error:  # noqa: PT011 - the code is what counts
        ask()
    return int(error.value.status)


def test_a_person_makes_and_sees_the_certificates(cluster: Cluster, tmp_path: Path) -> None:
    config, secret = tmp_path / "config.yaml", f"Secret {cluster.spec.namespace}/{cluster.spec.secret}"
    config.write_text(f"certificates: {{webhookConfiguration: {cluster.spec.configuration}}}\n")
    options = ("--config", config, "--kubeconfig", cluster.control_plane.kubeconfig)
    cluster.delete_secret()
    assert gpu_topology("certs", "rotate", *options).err == (
        f"gpu-topology: there is no {secret}. Make it: gpu-topology certs init\n"
    )
    made = gpu_topology("certs", "init", *options)
    assert (made.code, made.out.splitlines()[0]) == (0, "rotate: there is no Secret")
    assert json.loads(gpu_topology("certs", "init", *options, "-o", "json").out) == {"changes": []}
    found = json.loads(gpu_topology("certs", "show", *options, "-o", "json").out)
    places = [row["place"] for row in found["certificates"]]
    assert (places, found["faults"]) == (["tls.crt", "ca.crt", f"caBundle of {cluster.spec.configuration}"], [])
    assert json.loads(gpu_topology("certs", "rotate", *options, "-o", "json").out) == {"asked": "certificate"}
    elsewhere = gpu_topology("certs", "show", *options, "--namespace", "default")
    assert (elsewhere.code, f"Secret default/{cluster.spec.secret}" in elsewhere.err) == (1, True)

"""A Kubernetes API server with its etcd, and nothing else: no scheduler, no controllers, no nodes.

What controllers would do is left to the tests. Above all a new namespace has no service account ``default``, without
which pods are refused there, and a deleted namespace never goes away.
"""

import json
import secrets
import ssl
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from kubernetes.client import (
    ApiClient,
    AuthenticationV1TokenRequest,
    AuthorizationV1Api,
    Configuration,
    CoreV1Api,
    V1BoundObjectReference,
    V1ObjectMeta,
    V1ResourceAttributes,
    V1SelfSubjectAccessReview,
    V1SelfSubjectAccessReviewSpec,
    V1TokenRequestSpec,
    VersionApi,
)
from kubernetes.config import load_kube_config

from certs.certificate import issue
from tests.control_plane.processes import POLL_S, Program, running
from tests.ports import reserved_port

ETCD, KUBE_APISERVER = "etcd", "kube-apiserver"
ISSUER = "https://kubernetes.default.svc"
SERVING_NAMES = ("127.0.0.1", "localhost", "kubernetes.default.svc")
CERTIFICATE_LIFETIME = timedelta(days=1)
TOKEN_LIFETIME_S = 3600
REQUEST_TIMEOUT_S = 60.0
PERMISSION_DEADLINE_S = 30.0


@dataclass(frozen=True)
class Binaries:
    """Executable files of one control plane."""

    etcd: Path
    kube_apiserver: Path


@dataclass(frozen=True)
class ControlPlane:
    """A running API server, and how to reach it.

    Attributes:
        url: Of the API server, on the loopback interface.
        ca_file: The authority of its serving certificate, PEM.
        kubeconfig: For an administrator of everything (group ``system:masters``).
        directory: Kubeconfigs of service accounts are written there.
    """

    url: str
    ca_file: Path
    kubeconfig: Path
    directory: Path

    def client(self, kubeconfig: Path | None = None) -> ApiClient:
        """A client for the user of ``kubeconfig``, by default the administrator. Close it, or use it in ``with``."""
        configuration = Configuration()
        load_kube_config(  # type: ignore[no-untyped-call]  # kubernetes.config has no annotations
            str(kubeconfig or self.kubeconfig), client_configuration=configuration
        )
        configuration.proxy = None  # a proxy of this machine does not know its loopback interface
        return ApiClient(configuration)

    def version(self) -> str:
        """Of Kubernetes, such as ``1.36.3``."""
        with self.client() as client:
            found: str = VersionApi(client).get_code().git_version
        return found.removeprefix("v")

    def kubeconfig_for(self, namespace: str, name: str, *, pod: V1ObjectMeta | None = None) -> Path:
        """A kubeconfig with a new token of this service account, as a kubelet gets one for a pod.

        Args:
            namespace: Of the service account.
            name: Of the service account.
            pod: The pod that the token is bound to, with its name and uid; the token then tells its node, too.

        Raises:
            kubernetes.client.ApiException: 404, there is no such service account or pod.
        """
        bound = V1BoundObjectReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid) if pod else None
        wish = AuthenticationV1TokenRequest(
            spec=V1TokenRequestSpec(audiences=[ISSUER], expiration_seconds=TOKEN_LIFETIME_S, bound_object_ref=bound)
        )
        with self.client() as admin:
            answer = CoreV1Api(admin).create_namespaced_service_account_token(name, namespace, wish)
        assert answer.status is not None
        assert answer.status.token is not None
        path = self.directory / f"{namespace}.{(pod and pod.name) or name}.kubeconfig"
        _write_kubeconfig(path, self.url, self.ca_file, answer.status.token)
        return path


@contextmanager
def running_control_plane(binaries: Binaries, directory: Path) -> Iterator[ControlPlane]:
    """Starts etcd and the API server, waits until they are ready, and kills them at the end.

    Args:
        binaries: What to start.
        directory: Empty; takes all data, keys and logs.

    Raises:
        NotRunningError: one of them ended or does not become ready.
    """
    with startable_control_plane(binaries, directory) as plane:
        plane.start()
        yield plane.control_plane


@dataclass
class StartableControlPlane:
    """An etcd that runs, and an API server that comes and goes.

    Attributes:
        control_plane: How to reach it while it runs.
        etcd_url: Of etcd, without TLS.
    """

    control_plane: ControlPlane
    etcd_url: str
    _command: list[str | Path]
    _token: str
    _program: Program | None = None
    _running: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        """Start the API server, and wait until it is ready.

        Raises:
            NotRunningError: it ended or does not become ready.
        """
        plane, log = self.control_plane, self.control_plane.directory / "kube-apiserver.log"
        trust = ssl.create_default_context(cafile=plane.ca_file)
        program = self._program = self._running.enter_context(running(KUBE_APISERVER, self._command, log))
        program.wait_until(lambda: _answers_ok(f"{plane.url}/readyz", trust, self._token))

    def stop(self) -> None:
        """Kill the API server."""
        self._running.close()

    def paused(self) -> AbstractContextManager[None]:
        """The API server keeps its connections and answers nothing until the end of the block."""
        assert self._program is not None, "it was not started"
        return self._program.paused()

    def compact(self) -> None:
        """Make etcd forget all versions but the newest, as the API server has it done every five minutes."""
        post = partial(httpx.post, trust_env=False, timeout=REQUEST_TIMEOUT_S)
        newest = post(f"{self.etcd_url}/v3/kv/range", json={"key": "AA=="}).raise_for_status().json()
        wish = {"revision": newest["header"]["revision"], "physical": True}
        post(f"{self.etcd_url}/v3/kv/compaction", json=wish).raise_for_status()


@contextmanager
def startable_control_plane(binaries: Binaries, directory: Path, *options: str) -> Iterator[StartableControlPlane]:
    """Starts etcd; the API server is left to the caller. Both are killed at the end.

    Args:
        binaries: What to start.
        directory: Empty; takes all data, keys and logs.
        options: More options of the API server.

    Raises:
        NotRunningError: etcd ended or does not become ready.
    """
    token = secrets.token_urlsafe()
    _write_secrets(directory, token)
    trust = ssl.create_default_context(cafile=directory / "ca.crt")
    with ExitStack() as stack:
        etcd_port, port = (stack.enter_context(reserved_port()) for _ in range(2))
        etcd_url, url = f"http://127.0.0.1:{etcd_port}", f"https://127.0.0.1:{port}"
        etcd = stack.enter_context(running(ETCD, _etcd_command(binaries, directory, etcd_url), directory / "etcd.log"))
        etcd.wait_until(lambda: _answers_ok(f"{etcd_url}/health", trust))
        _write_kubeconfig(directory / "admin.kubeconfig", url, directory / "ca.crt", token)
        plane = ControlPlane(url, directory / "ca.crt", directory / "admin.kubeconfig", directory)
        command = [*_api_server_command(binaries, directory, etcd_url, port), *options]
        startable = StartableControlPlane(plane, etcd_url, command, token)
        stack.callback(startable.stop)
        yield startable


def wait_until_allowed(
    client: ApiClient, namespace: str, verb: str, resource: str, *, group: str = "", name: str = ""
) -> None:
    """Returns once the user of ``client`` may do that in ``namespace``, to any object if no name is given.

    The API server learns of its own roles and bindings by a watch, a moment after they were written.

    Raises:
        AssertionError: not within the deadline.
    """
    kind, _, subresource = resource.partition("/")
    attributes = V1ResourceAttributes(
        namespace=namespace, verb=verb, resource=kind, subresource=subresource, group=group, name=name
    )
    question = V1SelfSubjectAccessReview(spec=V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    deadline = time.monotonic() + PERMISSION_DEADLINE_S
    while True:
        status = AuthorizationV1Api(client).create_self_subject_access_review(question).status
        if status is not None and status.allowed:
            return
        assert time.monotonic() < deadline, f"{verb} {resource} in {namespace}: not allowed"
        time.sleep(POLL_S)


def _etcd_command(binaries: Binaries, directory: Path, url: str) -> list[str | Path]:
    return [
        binaries.etcd,
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--listen-peer-urls=http://127.0.0.1:0",  # any free port: it has no peers
        "--socket-reuse-port",
        "--unsafe-no-fsync",  # nothing of it outlives the tests
        "--log-level=warn",
    ]


def _api_server_command(binaries: Binaries, directory: Path, etcd_url: str, port: int) -> list[str | Path]:
    return [
        binaries.kube_apiserver,
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",  # otherwise it looks for a default route, and ends where there is none
        f"--secure-port={port}",
        "--permit-port-sharing",
        f"--tls-cert-file={directory / 'tls.crt'}",
        f"--tls-private-key-file={directory / 'tls.key'}",
        f"--token-auth-file={directory / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={directory / 'service-accounts.key'}",
        f"--service-account-signing-key-file={directory / 'service-accounts.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",  # endpoints of the service kubernetes may not be loopback addresses
    ]


def _write_secrets(directory: Path, token: str) -> None:
    """The administrator's token, the serving certificate, and the key that signs tokens of service accounts."""
    bundle = issue(SERVING_NAMES, now=datetime.now(UTC), lifetime=CERTIFICATE_LIFETIME)
    # The API server checks tokens with the same file, and takes an EC key from it in this format alone
    # (client-go/util/keyutil/key.go, ParsePublicKeysPEM).
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    # The format of the token file: token,user,uid,"group,group" (kubernetes.io, "Static token file").
    _write_private(directory / "tokens.csv", f'{token},admin,admin,"system:masters"\n'.encode())
    _write_private(directory / "tls.key", bundle.key)
    _write_private(directory / "service-accounts.key", key)
    (directory / "tls.crt").write_bytes(bundle.certificate)
    (directory / "ca.crt").write_bytes(bundle.authority)


def _write_kubeconfig(path: Path, url: str, ca_file: Path, token: str) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "user"}}],
        "current-context": "tests",
    }
    _write_private(path, json.dumps(config, indent=2).encode())


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _answers_ok(url: str, trust: ssl.SSLContext, token: str = "") -> bool:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = httpx.get(url, headers=headers, verify=trust, trust_env=False, timeout=REQUEST_TIMEOUT_S)
    except httpx.TransportError:
        return False
    return answer.status_code == httpx.codes.OK

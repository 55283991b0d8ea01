"""Where the attacks happen: a control plane of its own, one replica, two namespaces that have opted in."""

import json
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from kubernetes.client import (
    CoreV1Api,
    RbacAuthorizationV1Api,
    RbacV1Subject,
    V1ClusterRole,
    V1ObjectMeta,
    V1PolicyRule,
    V1RoleBinding,
    V1RoleRef,
    V1ServiceAccount,
)

from tests.chart.helm import INSTALL, documents
from tests.control_plane.accounts import RBAC
from tests.control_plane.control_plane import Binaries, ControlPlane, running_control_plane, wait_until_allowed
from tests.control_plane.hami.scheduler import USER as HAMI_USER
from tests.control_plane.hami.team import OPTED_IN, create_namespace
from tests.control_plane.installation import Installation, installed, registered
from tests.control_plane.load.nodes import create_nodes
from tests.control_plane.manifests import apply
from tests.control_plane.service import Traffic, running_service
from tests.hardware.topology.machines import h20
from tests.programs.server.conftest import until

POLICY_KINDS = frozenset({"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
CREATE = V1ClusterRole(
    metadata=V1ObjectMeta(name="may-create-pods"),
    rules=[V1PolicyRule(api_groups=[""], resources=["pods"], verbs=["create", "get"])],
)
EDIT = "system:aggregate-to-edit"
"""What the controller manager makes the built-in role ``edit`` of: there is no controller manager here."""
CLAIMS = {"claims": {"enabled": True}}
KNOWN = 'gpu_topology_nodes{topology="fresh"} 1.0'


PATIENCE_S = 120.0
"""Longer than the API server waits for any webhook."""


@dataclass(frozen=True)
class Answer:
    """What came back.

    Attributes:
        status: Of HTTP.
        text: The body.
    """

    status: int
    text: str

    @property
    def body(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)

    @property
    def short(self) -> str:
        """The status, and the beginning of a message if there is one."""
        try:
            message = str(self.body.get("message", ""))
        except (ValueError, AttributeError):
            message = self.text
        return f"{self.status} {message[:100]}".strip()


class Person:
    """Somebody at the API server."""

    def __init__(self, control_plane: ControlPlane, token: str) -> None:
        self._client = httpx.Client(
            base_url=control_plane.url,
            verify=ssl.create_default_context(cafile=control_plane.ca_file),
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE_S,
            trust_env=False,
        )

    def close(self) -> None:
        """End all connections."""
        self._client.close()

    def asks(self, method: str, path: str, body: Any = None, *, kind: str = "application/json", **query: str) -> Answer:
        """One request; ``body`` is JSON already if it is text."""
        content = body if isinstance(body, str) else json.dumps(body)
        answer = self._client.request(
            method, path, content=content, params=query, headers={"Content-Type": kind} if body is not None else {}
        )
        return Answer(answer.status_code, answer.text)

    def creates(self, namespace: str, pod: Any, *, dry_run: bool = False) -> Answer:
        """A pod."""
        query = {"dryRun": "All"} if dry_run else {}
        return self.asks("POST", f"/api/v1/namespaces/{namespace}/pods", pod, **query)


@dataclass(frozen=True)
class Stage:
    """All that runs.

    Attributes:
        ours: The installation; only its first replica is asked, and the other one does not run.
        traffic: Between the API server and that replica.
        api_server: Process number of kube-apiserver.
        nvml: Directory of the stand-in for NVML.
        team: Namespace of the tenant who attacks. It has no permission of ours.
        others: Namespace of the honest tenant.
        creator: May create and get pods in ``team``.
        editor: Has the built-in role ``edit`` there.
        administrator: May do everything.
    """

    ours: Installation
    traffic: Traffic
    api_server: int
    nvml: Path
    team: str
    others: str
    creator: Person
    editor: Person
    administrator: Person

    @property
    def control_plane(self) -> ControlPlane:
        """Where all of it is."""
        return self.ours.control_plane

    @property
    def replica(self) -> int:
        """Process number of the replica; 0, which no process has, while it does not run."""
        return self.ours.replicas[0].process.pid if 0 in self.ours.replicas else 0

    def begin_anew(self) -> None:
        """A replica that remembers nothing, also in its memory."""
        self.ours.kill(0)
        self.ours.start(0)
        _wait_for_node(self.ours)


@contextmanager
def running_stage(binaries: Binaries, directory: Path, nvml: Path) -> Iterator[Stage]:
    """Starts everything, as the chart installs it: registration and admission policies, too.

    Args:
        binaries: Of the control plane.
        directory: Empty; takes all data, keys and logs.
        nvml: Directory of the stand-in for NVML.

    Raises:
        NotRunningError: a program ended or does not become ready.
    """
    for part in ("control-plane", "ours"):
        (directory / part).mkdir()
    with ExitStack() as stack:
        plane = stack.enter_context(running_control_plane(binaries, directory / "control-plane"))
        ours = stack.enter_context(installed(plane, directory / "ours", {}, nvml, hami="2.9.0", settings=CLAIMS))
        ours.kill(1)
        create_nodes(plane, (h20(),))
        _wait_for_node(ours)
        _apply_policies(plane)
        traffic = Traffic()
        port = stack.enter_context(running_service([ours.ports[0][0]], traffic))
        asked = replace(ours, url=f"https://127.0.0.1:{port}")
        stack.enter_context(registered(ours, asked.registration(scheduler=HAMI_USER)))
        admin = CoreV1Api(stack.enter_context(plane.client()))
        team, others = create_namespace(admin, OPTED_IN), create_namespace(admin, OPTED_IN)
        RbacAuthorizationV1Api(admin.api_client).create_cluster_role(CREATE)
        people = {
            "creator": _tenant(admin, plane, team, "creator", "may-create-pods"),
            "editor": _tenant(admin, plane, team, "editor", EDIT),
            "administrator": Person(plane, token_of(plane.kubeconfig)),
        }
        for person in people.values():
            stack.callback(person.close)
        yield Stage(ours, traffic, _process_of(plane), nvml, team, others, **people)


def _wait_for_node(ours: Installation) -> None:
    until(lambda: KNOWN in ours.replica_metrics(0), "a replica that knows the node")


def _apply_policies(plane: ControlPlane) -> None:
    for one in documents(INSTALL.read_text(encoding="utf-8")):
        if one["kind"] in POLICY_KINDS:
            answer = apply(plane, one)
            # Those that limit the accounts of the installation came with it.
            assert answer.status_code in (200, 201), answer.text


def _tenant(admin: CoreV1Api, plane: ControlPlane, namespace: str, name: str, role: str) -> Person:
    """A service account with a role in its namespace."""
    rbac = RbacAuthorizationV1Api(admin.api_client)
    admin.create_namespaced_service_account(namespace, V1ServiceAccount(metadata=V1ObjectMeta(name=name)))
    reference = V1RoleRef(api_group=RBAC, kind="ClusterRole", name=role)
    subjects = [RbacV1Subject(kind="ServiceAccount", name=name, namespace=namespace)]
    binding = V1RoleBinding(metadata=V1ObjectMeta(name=name), role_ref=reference, subjects=subjects)
    rbac.create_namespaced_role_binding(namespace, binding)
    kubeconfig = plane.kubeconfig_for(namespace, name)
    with plane.client(kubeconfig) as client:
        wait_until_allowed(client, namespace, "create", "pods")
    return Person(plane, token_of(kubeconfig))


def token_of(kubeconfig: Path) -> str:
    """That of its user."""
    token: str = json.loads(kubeconfig.read_text())["users"][0]["user"]["token"]
    return token


def _process_of(plane: ControlPlane) -> int:
    """The number of the process that listens as this API server."""
    wanted = f"--secure-port={plane.url.rpartition(':')[2]}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "cmdline").read_bytes().split(b"\0"):
                return int(process.name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    raise ProcessLookupError(plane.url)

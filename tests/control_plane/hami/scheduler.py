"""HAMi as its chart installs it: its scheduler beside a kube-scheduler, its permissions, its webhook.

What the chart's templates say is repeated here in few words (charts/hami/templates/scheduler); the two programs are
real. They run as the service account ``hami-scheduler``, and it is this account that posts the Bindings.
"""

import base64
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from kubernetes.client import (
    AdmissionregistrationV1Api,
    CoreV1Api,
    RbacAuthorizationV1Api,
    RbacV1Subject,
    V1ClusterRole,
    V1ClusterRoleBinding,
    V1Namespace,
    V1ObjectMeta,
    V1PolicyRule,
    V1RoleRef,
    V1ServiceAccount,
)

from certs.certificate import issue
from tests.chart.registration import PATIENCE_S
from tests.control_plane.accounts import RBAC
from tests.control_plane.control_plane import CERTIFICATE_LIFETIME, REQUEST_TIMEOUT_S, ControlPlane, wait_until_allowed
from tests.control_plane.kube_scheduler import running_kube_scheduler
from tests.control_plane.processes import Program, running
from tests.ports import reserved_port
from tests.programs.server.conftest import until

NAMESPACE, ACCOUNT = "hami-system", "hami-scheduler"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
WEBHOOK = "hami-webhook"
"""Name of the configuration with a release that is called ``hami``, as everybody calls it."""
ROLE = V1ClusterRole(
    metadata=V1ObjectMeta(name=ACCOUNT),
    rules=[
        V1PolicyRule(api_groups=[""], resources=resources, verbs=verbs)
        for resources, verbs in (
            (["pods", "configmaps"], ["get", "list", "watch", "patch"]),
            (["pods/binding"], ["create"]),
            (["nodes"], ["get", "list", "patch", "watch"]),
            (["events"], ["create", "get", "list"]),
            (["resourcequotas"], ["get", "list", "watch"]),
        )
    ],
)
FAST = ("--kube-qps=100", "--kube-burst=200")
"""The default of 5 requests a second, client-go's, is about one pod in two seconds."""
RESOURCES = ("gpu", "gpumem", "gpucores", "gpumem-percentage", "priority")


@dataclass(frozen=True)
class Programs:
    """Executable files of one release."""

    kube_scheduler: Path
    hami_scheduler: Path


@dataclass
class Scheduling:
    """The kube-scheduler that asks HAMi: it comes and goes, while HAMi's scheduler stays."""

    begin: Callable[[], AbstractContextManager[None]]
    _running: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        """It reads anew what there is."""
        self._running.enter_context(self.begin())

    def stop(self) -> None:
        """Pods without a node stay so."""
        self._running.close()

    @contextmanager
    def away(self) -> Iterator[None]:
        """No pod is scheduled until the end of the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()


@dataclass(frozen=True)
class Hami:
    """A running HAMi.

    Attributes:
        release: Such as ``2.10.0``.
        url: Of its extender and webhook.
        authority: PEM, of its serving certificate.
        log: Of its scheduler.
        extender: The program.
        scheduling: The kube-scheduler beside it.
    """

    release: str
    url: str
    authority: bytes
    log: Path
    extender: Program
    scheduling: Scheduling

    def binds(self, pod: dict[str, Any], node: str) -> None:
        """What kube-scheduler has HAMi do for a pod: choose its cards on the node, and bind it.

        Raises:
            AssertionError: HAMi does neither.
        """
        metadata = pod["metadata"]
        found = self._answer("filter", {"Pod": pod, "NodeNames": [node]})
        assert found.get("NodeNames") == [node], found
        names = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"]}
        bound = dict[str, Any]()

        def is_known() -> bool:
            """HAMi hears of a new pod a moment after the API server has it, and kube-scheduler too."""
            bound.clear()
            bound.update(self._answer("bind", names | {"Node": node}))
            return "not found" not in str(bound.get("Error") or "")

        until(is_known, "HAMi's answer about a pod that it knows")
        assert not bound.get("Error"), bound

    def grants(self, pod: dict[str, Any], node: str) -> bool:
        """Whether HAMi has cards for a pod on the node; if so, it reserves them."""
        return self._answer("filter", {"Pod": pod, "NodeNames": [node]}).get("NodeNames") == [node]

    def _answer(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        # The connection is to this machine; kube-scheduler does not check the certificate either.
        answer = httpx.post(f"{self.url}/{verb}", json=body, verify=False, timeout=REQUEST_TIMEOUT_S, trust_env=False)  # noqa: S501
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def webhook(self, name: str = WEBHOOK) -> dict[str, Any]:
        """Its MutatingWebhookConfiguration, at an address in place of a Service."""
        unless = {"matchExpressions": [{"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}]}
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}
        authority = base64.b64encode(self.authority).decode()
        webhook = {
            "name": "vgpu.hami.io",
            "admissionReviewVersions": ["v1beta1"],
            "clientConfig": {"url": f"{self.url}/webhook", "caBundle": authority},
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "namespaceSelector": unless,
            "objectSelector": unless,
            "reinvocationPolicy": "Never",
            "rules": [rule],
            "sideEffects": "None",
            "timeoutSeconds": PATIENCE_S,
        }
        return {"metadata": {"name": name}, "webhooks": [webhook]}


@contextmanager
def running_hami(
    control_plane: ControlPlane,
    programs: Programs,
    release: str,
    directory: Path,
    *,
    overwrite_env: bool = False,
    is_fast: bool = True,
) -> Iterator[Hami]:
    """Starts both schedulers and waits until they answer; the webhook is registered too.

    Args:
        control_plane: Where.
        programs: What.
        release: Of HAMi.
        directory: Empty; takes configuration, keys and logs.
        overwrite_env: HAMi's setting ``scheduler.overwriteEnv``.
        is_fast: As in :func:`hami_command`.

    Raises:
        NotRunningError: one of them ended or does not become ready.
    """
    kubeconfig = create_account(control_plane)
    write_files(directory, overwrite_env=overwrite_env)
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with ExitStack() as stack:
        port = stack.enter_context(reserved_port())
        authority = (directory / "ca.crt").read_bytes()
        url = f"https://127.0.0.1:{port}"
        scheduling = Scheduling(
            partial(
                running_kube_scheduler,
                programs.kube_scheduler,
                kubeconfig,
                directory,
                name="hami-scheduler",
                extenders=[extender_of(url)],
            )
        )
        command = hami_command(programs.hami_scheduler, directory, port, is_fast=is_fast)
        log = directory / "hami-scheduler.log"
        extender = stack.enter_context(running("hami-scheduler", command, log, environment))
        extender.wait_until(lambda: _is_healthy(url))
        hami = Hami(release, url, authority, log, extender, scheduling)
        stack.callback(scheduling.stop)
        scheduling.start()
        body: Any = hami.webhook()
        with control_plane.client() as client:
            AdmissionregistrationV1Api(client).create_mutating_webhook_configuration(body)
        yield hami


def write_files(directory: Path, *, overwrite_env: bool = False) -> None:
    """What HAMi's scheduler reads: its certificate, with the authority in ``ca.crt``, and its configuration."""
    write_certificate(directory)
    devices = {"nvidia": _device_config(overwrite_env=overwrite_env)}
    (directory / "device-config.yaml").write_text(json.dumps(devices))


def write_certificate(directory: Path) -> None:
    """A serving certificate for this machine: ``tls.crt``, ``tls.key``, and its authority in ``ca.crt``."""
    bundle = issue(("127.0.0.1",), now=datetime.now(UTC), lifetime=CERTIFICATE_LIFETIME)
    for name, content in (("tls.crt", bundle.certificate), ("tls.key", bundle.key), ("ca.crt", bundle.authority)):
        (directory / name).touch(mode=0o600)
        (directory / name).write_bytes(content)


def create_account(control_plane: ControlPlane) -> Path:
    """A kubeconfig for the service account, with the roles that the chart gives it."""
    subjects = [RbacV1Subject(kind="ServiceAccount", name=ACCOUNT, namespace=NAMESPACE)]
    with control_plane.client() as client:
        core, rbac = CoreV1Api(client), RbacAuthorizationV1Api(client)
        core.create_namespace(V1Namespace(metadata=V1ObjectMeta(name=NAMESPACE)))
        core.create_namespaced_service_account(NAMESPACE, V1ServiceAccount(metadata=V1ObjectMeta(name=ACCOUNT)))
        rbac.create_cluster_role(ROLE)
        for role in (ACCOUNT, "system:kube-scheduler", "system:volume-scheduler"):
            reference = V1RoleRef(api_group=RBAC, kind="ClusterRole", name=role)
            metadata = V1ObjectMeta(name=f"{ACCOUNT}-{role}")
            rbac.create_cluster_role_binding(
                V1ClusterRoleBinding(metadata=metadata, role_ref=reference, subjects=subjects)
            )
    kubeconfig = control_plane.kubeconfig_for(NAMESPACE, ACCOUNT)
    with control_plane.client(kubeconfig) as client:
        wait_until_allowed(client, "", "watch", "resourcequotas")
        wait_until_allowed(client, "", "watch", "storageclasses", group="storage.k8s.io")
    return kubeconfig


def hami_command(program: Path, directory: Path, port: int, *, is_fast: bool = True) -> list[str | Path]:
    """HAMi's scheduler with the files of :func:`write_files`, to be started with ``KUBECONFIG``.

    Args:
        program: The executable file.
        directory: Of the files.
        port: Where it listens.
        is_fast: Whether it may ask the API server more often than the chart lets it.
    """
    return [
        program,
        f"--http_bind=127.0.0.1:{port}",
        f"--cert_file={directory / 'tls.crt'}",
        f"--key_file={directory / 'tls.key'}",
        "--scheduler-name=hami-scheduler",
        "--metrics-bind-address=127.0.0.1:0",
        "--node-scheduler-policy=binpack",
        "--gpu-scheduler-policy=spread",
        "--force-overwrite-default-scheduler=true",
        f"--device-config-file={directory / 'device-config.yaml'}",
        *(FAST if is_fast else ()),
        "-v=4",
    ]


def _device_config(*, overwrite_env: bool) -> dict[str, Any]:
    return {
        "resourceCountName": "nvidia.com/gpu",
        "resourceMemoryName": "nvidia.com/gpumem",
        "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
        "resourceCoreName": "nvidia.com/gpucores",
        "resourcePriorityName": "nvidia.com/priority",
        "overwriteEnv": overwrite_env,
        "defaultMemory": 0,
        "defaultCores": 0,
        "defaultGPUNum": 1,
        "memoryFactor": 1,
        "deviceSplitCount": 10,
        "deviceMemoryScaling": 1,
        "deviceCoreScaling": 1,
        "gpuCorePolicy": "default",
    }


def extender_of(url: str) -> dict[str, Any]:
    """How kube-scheduler asks HAMi's scheduler."""
    return {
        "urlPrefix": url,
        "enableHTTPS": True,
        "tlsConfig": {"insecure": True},
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "weight": 1,
        "httpTimeout": "30s",
        "managedResources": [{"name": f"nvidia.com/{resource}", "ignoredByScheduler": True} for resource in RESOURCES],
    }


def _is_healthy(url: str) -> bool:
    try:
        # It is the process that is waited for; the API server checks the certificate.
        answer = httpx.get(f"{url}/healthz", verify=False, timeout=REQUEST_TIMEOUT_S, trust_env=False)  # noqa: S501
    except httpx.TransportError:
        return False
    return answer.status_code == httpx.codes.OK

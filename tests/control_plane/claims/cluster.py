"""A cluster whose GPUs are given by claims: API server, controllers, the plain kube-scheduler, nodes that tests add."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from kubernetes.client import CoreV1Api

from tests.control_plane.claims.bindings import Observer, observing
from tests.control_plane.claims.drivers import Manifest, device_classes
from tests.control_plane.control_plane import Binaries, ControlPlane, StartableControlPlane, startable_control_plane
from tests.control_plane.controller_manager import running_controller_manager
from tests.control_plane.hami.nodes import READY, untaint
from tests.control_plane.kube_scheduler import running_kube_scheduler
from tests.control_plane.manifests import apply, path_of, request
from tests.control_plane.registration import Answer, create_pod
from tests.programs.server.conftest import until

SCHEDULER = "system:kube-scheduler"
"""The user as whom it binds; the API server brings its roles along."""
AMOUNTS = {"cpu": "192", "memory": "2Ti", "pods": "110"}
OF_CLAIMS = ("resourceclaims", "resourceclaimtemplates")


@dataclass(frozen=True)
class ClaimPrograms:
    """Executable files of one Kubernetes."""

    control_plane: Binaries
    controller_manager: Path
    scheduler: Path


@dataclass(frozen=True)
class ClaimsCluster:
    """All that runs.

    Attributes:
        api_server: That of the control plane, for tests in which it is away.
        admin: The core API, as the administrator.
        observer: Tells what there was at each Binding in namespaces with its labels.
        directory: For files of those who add to it.
        seen: Pods that have got a node are added to it.
    """

    control_plane: ControlPlane
    api_server: StartableControlPlane
    admin: CoreV1Api
    observer: Observer
    directory: Path
    seen: list[Manifest] = field(default_factory=list)

    def apply(self, *manifests: Manifest) -> None:
        """Create or change objects; a field that the API server does not know is an error."""
        for manifest in manifests:
            answer = apply(self.control_plane, manifest)
            assert answer.is_success, answer.text

    def get(self, path: str) -> Any:
        """What the API server has at this path; None if there is nothing."""
        answer = request(self.control_plane, "GET", path)
        assert answer.status_code in {httpx.codes.OK, httpx.codes.NOT_FOUND}, answer.text
        return answer.json() if answer.is_success else None

    def delete(self, path: str, **query: str) -> None:
        """Delete what is at this path; that there is nothing is no error."""
        answer = request(self.control_plane, "DELETE", path, params=query)
        assert answer.status_code in {httpx.codes.OK, httpx.codes.ACCEPTED, httpx.codes.NOT_FOUND}, answer.text

    @contextmanager
    def node(self, name: str, slices: Sequence[Manifest] = (), **amounts: str) -> Iterator[None]:
        """A node that is ready, and what drivers publish for it, until the end of the block.

        Args:
            name: Of the node.
            slices: Its ResourceSlices; more may be published later, and are deleted with the node.
            amounts: More that is allocatable there, beside CPUs, memory and pods.
        """
        allocatable = AMOUNTS | amounts
        body: Any = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": allocatable, "allocatable": allocatable, "conditions": [READY]},
        }
        self.admin.create_node(body)
        untaint(self.admin, name)
        try:
            self.apply(*slices)
            yield
        finally:
            self.delete("/apis/resource.k8s.io/v1/resourceslices", fieldSelector=f"spec.nodeName={name}")
            self.admin.delete_node(name)

    def withdraw(self, *slices: Manifest) -> None:
        """Delete these ResourceSlices, as a driver does that is removed."""
        for one in slices:
            self.delete(path_of(one))

    @contextmanager
    def namespace(self, labels: Mapping[str, str] | None = None) -> Iterator["ClaimsNamespace"]:
        """A new namespace with these labels; at the end its pods and claims are gone, and their devices free."""
        body: Any = {"metadata": {"generateName": "claims-", "labels": dict(labels or {})}}
        created: Any = self.admin.create_namespace(body)
        name: str = created.metadata.name
        place = ClaimsNamespace(self, name)
        until(lambda: bool(self.get(f"/api/v1/namespaces/{name}/serviceaccounts/default")), "a service account")
        try:
            yield place
        finally:
            place.empty()


@dataclass(frozen=True)
class ClaimsNamespace:
    """A namespace of one test."""

    cluster: ClaimsCluster
    name: str

    def apply(self, *manifests: Manifest) -> None:
        """Create or change claims and templates here."""
        for manifest in manifests:
            self.cluster.apply(manifest | {"metadata": manifest["metadata"] | {"namespace": self.name}})

    def asks_for(self, pod: Manifest, *, dry_run: bool = False) -> Answer:
        """What the API server says to the pod."""
        return create_pod(self.cluster.control_plane, self.name, pod, dry_run=dry_run)

    def creates(self, pod: Manifest) -> Manifest:
        """The pod as it was stored at its creation."""
        answer = self.asks_for(pod)
        assert answer.status == httpx.codes.CREATED, answer.message
        stored: Manifest = answer.body
        return stored

    def pod(self, name: str) -> Manifest:
        """The pod as the kubelet reads it."""
        found: Manifest = self.cluster.get(f"/api/v1/namespaces/{self.name}/pods/{name}")
        return found

    def bound(self, name: str) -> Manifest:
        """The pod once it has a node."""
        until(lambda: bool(self.pod(name)["spec"].get("nodeName")), f"a node for {name}")
        self.cluster.seen.append(self.pod(name))
        return self.cluster.seen[-1]

    def waits(self, name: str) -> str:
        """Why the scheduler found no node for the pod, once it has said so."""
        said: list[str] = []

        def has_looked() -> bool:
            conditions = self.pod(name)["status"].get("conditions", ())
            said[:] = [each["message"] for each in conditions if each.get("reason") == "Unschedulable"]
            return bool(said)

        until(has_looked, f"{name} unschedulable")
        return said[0]

    def claim(self, name: str) -> Manifest:
        """The claim of this name."""
        found: Manifest = self.cluster.get(f"/apis/resource.k8s.io/v1/namespaces/{self.name}/resourceclaims/{name}")
        return found

    def claims(self) -> list[Manifest]:
        """All claims, in the order of their names."""
        found: list[Manifest] = self.cluster.get(f"/apis/resource.k8s.io/v1/namespaces/{self.name}/resourceclaims")[
            "items"
        ]
        return found

    def devices(self, pod: str) -> list[str]:
        """The devices of all claims that are reserved for the pod, in the order of the claims."""
        claims = [each for each in self.claims() if pod in reserved_for(each)]
        return [result["device"] for each in claims for result in results(each)]

    def events(self, name: str) -> list[str]:
        """The messages of all Events on the pod."""
        found = self.cluster.get(f"/api/v1/namespaces/{self.name}/events")["items"]
        return [event.get("message", "") for event in found if event["involvedObject"]["name"] == name]

    def removes(self, pod: str) -> None:
        """Delete the pod at once, as the kubelet does in the end."""
        self.cluster.delete(f"/api/v1/namespaces/{self.name}/pods/{pod}", gracePeriodSeconds="0")

    def empty(self) -> None:
        """Delete all pods and claims, and return once their devices are free."""
        self.cluster.delete(f"/api/v1/namespaces/{self.name}/pods", gracePeriodSeconds="0")
        root = f"/apis/resource.k8s.io/v1/namespaces/{self.name}"
        for resource in OF_CLAIMS:
            self.cluster.delete(f"{root}/{resource}")
        until(lambda: not self.claims(), f"no claims in {self.name}")


def results(claim: Manifest) -> list[Manifest]:
    """What the claim was given; nothing while it is not allocated."""
    found: list[Manifest] = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return found


def reserved_for(claim: Manifest) -> list[str]:
    """Names of the pods that the claim is reserved for."""
    return [each["name"] for each in claim.get("status", {}).get("reservedFor", ())]


@contextmanager
def running_claims_cluster(programs: ClaimPrograms, directory: Path) -> Iterator[ClaimsCluster]:
    """Starts everything.

    Raises:
        NotRunningError: a program ended or does not become ready.
    """
    with ExitStack() as stack:
        for part in ("control-plane", "scheduler", "observer", "more"):
            (directory / part).mkdir()
        api_server = stack.enter_context(startable_control_plane(programs.control_plane, directory / "control-plane"))
        api_server.start()
        plane = api_server.control_plane
        stack.enter_context(
            running_controller_manager(plane, programs.controller_manager, directory / "kube-controller-manager.log")
        )
        kubeconfig = _as_user(plane, SCHEDULER)
        stack.enter_context(
            running_kube_scheduler(programs.scheduler, kubeconfig, directory / "scheduler", name="default-scheduler")
        )
        observer = stack.enter_context(observing(plane, directory / "observer"))
        client = stack.enter_context(plane.client())
        cluster = ClaimsCluster(plane, api_server, CoreV1Api(client), observer, directory / "more")
        cluster.apply(*device_classes())
        yield cluster


def _as_user(plane: ControlPlane, user: str) -> Path:
    """A kubeconfig of this user, whom the administrator impersonates."""
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = user
    path = plane.directory / f"{user.replace(':', '-')}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path

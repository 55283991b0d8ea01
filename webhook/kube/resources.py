"""What of the cluster is watched: the objects, and in which form they are asked for."""

from dataclasses import dataclass
from urllib.parse import quote

from webhook.kube.session import JSON
from webhook.model import names
from webhook.model.choices import Placement

_METADATA = "application/json;as={kind};v=v1;g=meta.k8s.io,application/json"
"""Objects without spec and status: kubernetes.io, "Metadata-only fetches". Of a Node that is most of it."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection at the API server."""

    name: str
    """As it stands in a role."""
    path: str
    query: str = ""
    """Selectors, escaped."""
    metadata_only: bool = False
    all_namespaces: bool = False
    """Objects of several namespaces: a mirror knows them by ``namespace/name``."""
    api: str = ""
    """Group and version that a cluster may be without, as it stands in errors; then it has no such objects."""

    @property
    def list_form(self) -> str:
        """The ``Accept`` header of a list."""
        return _METADATA.format(kind="PartialObjectMetadataList") if self.metadata_only else JSON

    @property
    def watch_form(self) -> str:
        """The ``Accept`` header of a watch."""
        return _METADATA.format(kind="PartialObjectMetadata") if self.metadata_only else JSON


CLAIMS_GROUP = "resource.k8s.io/v1"
CLAIMS_API = f"/apis/{CLAIMS_GROUP}"

NAMESPACES = Resource("namespaces", "/api/v1/namespaces", metadata_only=True)
NODES = Resource("nodes", "/api/v1/nodes", metadata_only=True)
WHOLE_NODES = Resource("nodes", "/api/v1/nodes")
PODS = Resource(
    "pods",
    "/api/v1/pods",
    "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed",
    all_namespaces=True,
)
"""Those that may hold devices. One that finishes leaves the watch as if it had been deleted (apiserver
pkg/storage/cacher/cache_watcher.go), so nothing is kept of it."""

_PUBLISHED = f"labelSelector={names.NODE.replace('/', '%2F')}"


ALL_CONFIG_MAPS = Resource("configmaps", "/api/v1/configmaps", _PUBLISHED, all_namespaces=True)
"""The agents' ConfigMaps, in whichever namespace they are."""
ALL_LEASES = Resource("leases", "/apis/coordination.k8s.io/v1/leases", _PUBLISHED, all_namespaces=True)
"""The agents' Leases, in whichever namespace they are."""


def config_maps(namespace: str) -> Resource:
    """The agents' ConfigMaps."""
    return Resource("configmaps", f"/api/v1/namespaces/{namespace}/configmaps", _PUBLISHED)


def planner_lease(namespace: str) -> Resource:
    """The planner's Lease, and no other object of the namespace.

    So a role may name it (kubernetes.io, "Using RBAC Authorization", about list and watch with resourceNames).
    """
    selector = f"fieldSelector=metadata.name%3D{names.PLANNER_LEASE}"
    return Resource("leases", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", selector)


def waiting_pods() -> Resource:
    """The pods of all namespaces that wait for the planner."""
    selector = f"labelSelector={names.PLACEMENT.replace('/', '%2F')}%3D{Placement.WAITING}"
    return Resource("pods", "/api/v1/pods", selector)


def leases(namespace: str) -> Resource:
    """The agents' Leases."""
    return Resource("leases", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", _PUBLISHED)


def resource_slices(driver: str) -> Resource:
    """What one DRA driver publishes. Kubernetes 1.34 has the selector too: pkg/apis/resource/v1/conversion.go."""
    selector = f"fieldSelector={quote(f'spec.driver={driver}', safe='')}"
    return Resource("resourceslices", f"{CLAIMS_API}/resourceslices", selector, api=CLAIMS_GROUP)

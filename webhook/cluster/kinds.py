"""Kinds of objects at the API server as values, and the collections of them that programs list and watch."""

from dataclasses import dataclass
from urllib.parse import quote

from webhook.words import names
from webhook.words.choices import Placement

JSON = "application/json"
_METADATA = "application/json;as={kind};v=v1;g=meta.k8s.io,application/json"
"""Objects without spec and status: kubernetes.io, "Metadata-only fetches". Of a Node that is most of it."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Objects of one kind: all there are, those of a namespace, or those that selectors choose."""

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
        """The ``Accept`` header of a watch, and of a single object."""
        return _METADATA.format(kind="PartialObjectMetadata") if self.metadata_only else JSON


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects."""

    name: str
    """As it stands in manifests."""
    resource: str
    """As it stands in a role."""
    api: str = "v1"
    """Group and version, as they stand in manifests."""
    has_namespaces: bool = False
    is_optional: bool = False
    """Whether a cluster may be without it: then the API server answers that it does not serve the path."""

    @property
    def word(self) -> str:
        """The kind as it stands in messages."""
        return self.name.lower() if self.name in ("Pod", "Node", "Namespace") else self.name

    @property
    def root(self) -> str:
        """The path of the group and version."""
        return f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """The path of a collection, of an object in it or of a part of that, such as ``status``; escaped."""
        place = f"/namespaces/{_escaped(namespace)}" if namespace else ""
        own = f"/{_escaped(name)}" if name else ""
        return f"{self.root}{place}/{self.resource}{own}" + (f"/{part}" if part else "")

    def having(
        self, *, namespace: str = "", labels: str = "", fields: str = "", metadata_only: bool = False
    ) -> Collection:
        """Those of a namespace, or of all, that selectors choose.

        Args:
            namespace: The only one; empty: all, and then mirrors know the objects by ``namespace/name``.
            labels: A selector such as ``key=value``; empty: whatever the labels.
            fields: A selector such as ``spec.nodeName=n1``.
            metadata_only: Whether the objects are asked for without spec and status.
        """
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        return Collection(
            self.resource,
            self.path(namespace),
            "&".join(f"{key}={_escaped(value)}" for key, value in selectors.items() if value),
            metadata_only=metadata_only,
            all_namespaces=self.has_namespaces and not namespace,
            api=self.api if self.is_optional else "",
        )


def _escaped(text: str) -> str:
    """Text as a part of a path or query."""
    return quote(text, safe="")


COORDINATION, CLAIMS_API = "coordination.k8s.io/v1", "resource.k8s.io/v1"

POD = Kind("Pod", "pods", has_namespaces=True)
NODE = Kind("Node", "nodes")
NAMESPACE = Kind("Namespace", "namespaces")
CONFIG_MAP = Kind("ConfigMap", "configmaps", has_namespaces=True)
SECRET = Kind("Secret", "secrets", has_namespaces=True)
LEASE = Kind("Lease", "leases", COORDINATION, has_namespaces=True)
EVENT = Kind("Event", "events", "events.k8s.io/v1", has_namespaces=True)
DEPLOYMENT = Kind("Deployment", "deployments", "apps/v1", has_namespaces=True)
MUTATING_WEBHOOKS = Kind(
    "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "admissionregistration.k8s.io/v1"
)
DEVICE_CLASS = Kind("DeviceClass", "deviceclasses", CLAIMS_API, is_optional=True)
CLAIM = Kind("ResourceClaim", "resourceclaims", CLAIMS_API, has_namespaces=True, is_optional=True)
CLAIM_TEMPLATE = Kind(
    "ResourceClaimTemplate", "resourceclaimtemplates", CLAIMS_API, has_namespaces=True, is_optional=True
)
SLICE = Kind("ResourceSlice", "resourceslices", CLAIMS_API, is_optional=True)
TAINT_RULES = tuple(
    Kind("DeviceTaintRule", "devicetaintrules", f"resource.k8s.io/{version}", is_optional=True)
    for version in ("v1", "v1beta2")
)
"""DeviceTaintRules in the versions in which they are alike, the newest first. Kubernetes 1.37 serves them in ``v1``. In
1.36 they are ``v1beta2``, and off without ``--runtime-config``."""

NAMESPACES = NAMESPACE.having(metadata_only=True)
NODES = NODE.having(metadata_only=True)
WHOLE_NODES = NODE.having()
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
PODS = POD.having(fields=NOT_ENDED)
"""Those that may hold devices. One that finishes leaves the watch as if it had been deleted (apiserver
pkg/storage/cacher/cache_watcher.go), so nothing is kept of it."""
UNBOUND_FIELD = "spec.nodeName="
"""Chooses pods that no scheduler has bound."""
WAITING_PODS = POD.having(labels=f"{names.PLACEMENT}={Placement.WAITING}")
"""The pods of all namespaces that wait for the planner."""
HAMI_SCHEDULERS = DEPLOYMENT.having(labels="=".join(names.HAMI_SCHEDULER_LABEL))
DEVICE_CLASSES = DEVICE_CLASS.having()


def config_maps(namespace: str = "") -> Collection:
    """The agents' ConfigMaps in a namespace; empty: in whichever they are."""
    return CONFIG_MAP.having(namespace=namespace, labels=names.NODE)


def leases(namespace: str = "") -> Collection:
    """The agents' Leases in a namespace; empty: in whichever they are."""
    return LEASE.having(namespace=namespace, labels=names.NODE)


def planner_lease(namespace: str) -> Collection:
    """The planner's Lease, and no other object of the namespace.

    So a role may name it (kubernetes.io, "Using RBAC Authorization", about list and watch with resourceNames).
    """
    return LEASE.having(namespace=namespace, fields=f"metadata.name={names.PLANNER_LEASE}")


def resource_slices(driver: str) -> Collection:
    """What one DRA driver publishes. Kubernetes 1.34 has the selector too: pkg/apis/resource/v1/conversion.go."""
    return SLICE.having(fields=f"spec.driver={driver}")

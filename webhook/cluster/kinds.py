"""Kinds of objects at the API server as values, and the collections of them that programs list and watch."""

from dataclasses import dataclass
from urllib.parse import quote

from webhook.words import names
from webhook.words.choices import Placement

JSON = "application/json"
_METADATA = "application/json;as={kind};v=v1;g=meta.k8s.io,application/json"
"""The form of objects without spec and status: kubernetes.io, "Metadata-only fetches". They are most of a Node."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Objects of one kind: all of them, those of a namespace, or those that selectors choose."""

    name: str
    """The name in a role."""
    path: str
    query: str = ""
    """The selectors, escaped."""
    metadata_only: bool = False
    all_namespaces: bool = False
    """True for objects of several namespaces. A mirror names them ``namespace/name``."""
    api: str = ""
    """The group and version that a cluster may lack, as in errors. Such a cluster has no such objects."""

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
    """The name in manifests."""
    resource: str
    """The name in a role."""
    api: str = "v1"
    """The group and version, as in manifests."""
    has_namespaces: bool = False
    is_optional: bool = False
    """True if a cluster may lack the kind. Then the API server answers that it does not serve the path."""

    @property
    def word(self) -> str:
        """The kind, as messages name it."""
        return self.name.lower() if self.name in ("Pod", "Node", "Namespace") else self.name

    @property
    def root(self) -> str:
        """The path of the group and version."""
        return f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Return the path of a collection, of an object in it or of a part of that, such as ``status``; escaped."""
        place = f"/namespaces/{_escaped(namespace)}" if namespace else ""
        own = f"/{_escaped(name)}" if name else ""
        return f"{self.root}{place}/{self.resource}{own}" + (f"/{part}" if part else "")

    def having(
        self, *, namespace: str = "", labels: str = "", fields: str = "", metadata_only: bool = False
    ) -> Collection:
        """Return the objects of a namespace, or of all, that selectors choose.

        Args:
            namespace: The only namespace; empty for all, and then mirrors name the objects ``namespace/name``.
            labels: A selector such as ``key=value``; empty for any labels.
            fields: A selector such as ``spec.nodeName=n1``.
            metadata_only: True if the objects are requested without spec and status.
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
    """Escape text for a path or query."""
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
DISRUPTION_BUDGET = Kind("PodDisruptionBudget", "poddisruptionbudgets", "policy/v1", has_namespaces=True)
POD_GROUPS = tuple(
    Kind("PodGroup", "podgroups", f"scheduling.k8s.io/{version}", has_namespaces=True, is_optional=True)
    for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
"""The PodGroups of Kubernetes itself, the newest version first: 1.37 serves two of them, 1.36 the last."""
WORKLOADS = (Kind("Workload", "workloads", "scheduling.k8s.io/v1alpha1", has_namespaces=True, is_optional=True),)
COSCHEDULING_GROUPS, VOLCANO_GROUPS = (
    (Kind("PodGroup", "podgroups", api, has_namespaces=True, is_optional=True),)
    for api in ("scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1")
)
MUTATING_WEBHOOKS = Kind(
    "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "admissionregistration.k8s.io/v1"
)
RUNTIME_CLASS = Kind("RuntimeClass", "runtimeclasses", "node.k8s.io/v1")
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
"""The DeviceTaintRules in the versions in which they are alike, the newest first. Kubernetes 1.37 serves them in
``v1``. In 1.36 they are ``v1beta2``, and off without ``--runtime-config``."""

NAMESPACES = NAMESPACE.having(metadata_only=True)
NODES = NODE.having(metadata_only=True)
WHOLE_NODES = NODE.having()
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
PODS = POD.having(fields=NOT_ENDED)
"""The pods that may hold devices. A pod that finishes leaves the watch as if it had been deleted (apiserver
pkg/storage/cacher/cache_watcher.go), so it is dropped."""
UNBOUND_FIELD = "spec.nodeName="
"""The field selector of pods that no scheduler has bound."""
WAITING_PODS = POD.having(labels=f"{names.PLACEMENT}={Placement.WAITING}")
"""The pods of all namespaces that wait for the planner."""
HAMI_SCHEDULERS = DEPLOYMENT.having(labels="=".join(names.HAMI_SCHEDULER_LABEL))
DEVICE_CLASSES = DEVICE_CLASS.having()


def config_maps(namespace: str = "") -> Collection:
    """Return the agents' ConfigMaps in a namespace; empty: in all namespaces."""
    return CONFIG_MAP.having(namespace=namespace, labels=names.NODE)


def leases(namespace: str = "") -> Collection:
    """Return the agents' Leases in a namespace; empty: in all namespaces."""
    return LEASE.having(namespace=namespace, labels=names.NODE)


def planner_lease(namespace: str) -> Collection:
    """Return the planner's Lease, and no other object of the namespace.

    So a role may name it (kubernetes.io, "Using RBAC Authorization", about list and watch with resourceNames).
    """
    return LEASE.having(namespace=namespace, fields=f"metadata.name={names.PLANNER_LEASE}")


def resource_slices(driver: str) -> Collection:
    """Return the ResourceSlices of one driver. Kubernetes 1.34 has the selector: pkg/apis/resource/v1/conversion.go."""
    return SLICE.having(fields=f"spec.driver={driver}")

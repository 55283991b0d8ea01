"""What the programs may do at the API server, and nothing beyond it. Roles are tested against this list."""

from dataclasses import dataclass, replace
from enum import StrEnum

from webhook.words.names import PLANNER_LEASE


class Scope(StrEnum):
    """Where a permission is needed."""

    CLUSTER = "cluster"
    OWN_NAMESPACE = "own-namespace"
    """The namespace of the release, in which webhook and planner run."""
    TOPOLOGIES = "topologies"
    """The namespace in which agents publish: of the installed webhook one of its own, because a Role cannot name the
    objects of nodes that are not known yet, and so lets an agent write all that is there."""
    PODS = "pods"
    """The namespace of the pods that it is about."""
    DEFAULT_NAMESPACE = "default-namespace"
    """``default``: there the API server wants the Events of objects without a namespace, such as Nodes."""


@dataclass(frozen=True, slots=True)
class Permission:
    """One rule of a Role or ClusterRole."""

    scope: Scope
    group: str
    """API group; empty for the core."""
    resource: str
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()
    """Only objects of these names; empty: of any. A creation cannot be limited so."""


AGENT = (
    Permission(Scope.CLUSTER, "", "nodes", ("get", "patch")),
    # Server-side apply is a patch, and the creation of what is not there yet.
    Permission(Scope.TOPOLOGIES, "", "configmaps", ("create", "get", "patch")),
    Permission(Scope.TOPOLOGIES, "coordination.k8s.io", "leases", ("create", "patch")),
    Permission(Scope.DEFAULT_NAMESPACE, "events.k8s.io", "events", ("create",)),
)
"""What ``gpu-topology agent`` does. A Role cannot say *only what is its own node's*; an admission policy can."""

AGENT_TAINTS = (
    Permission(Scope.CLUSTER, "resource.k8s.io", "devicetaintrules", ("create", "delete", "list", "patch")),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceslices", ("list",)),
)
"""What ``gpu-topology agent --taint-devices`` does beside that. Here, too, an admission policy can say *of its own
node*. Discovery needs no role but ``system:discovery``, which every account has."""

WEBHOOK = (
    Permission(Scope.CLUSTER, "", "pods", ("get", "list", "patch")),
    Permission(Scope.CLUSTER, "events.k8s.io", "events", ("create",)),
    Permission(Scope.CLUSTER, "", "namespaces", ("get", "list", "watch")),
    Permission(Scope.CLUSTER, "", "nodes", ("list", "watch")),
    Permission(Scope.CLUSTER, "apps", "deployments", ("list",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "deviceclasses", ("list",)),
    Permission(Scope.TOPOLOGIES, "", "configmaps", ("list", "watch")),
    Permission(Scope.TOPOLOGIES, "coordination.k8s.io", "leases", ("list", "watch")),
    # The name allows a list or watch with a field selector for it (kubernetes.io, "Referring to resources").
    Permission(Scope.OWN_NAMESPACE, "coordination.k8s.io", "leases", ("list", "watch"), (PLANNER_LEASE,)),
)
"""What ``gpu-topology serve`` does: it reads the pod of each Binding, lists those of its group, and tells of what went
wrong. With ``--state kubernetes`` it keeps namespaces, the metadata of Nodes, and what the agents publish; gets a
namespace in doubt; and looks for HAMi's schedulers (their version, and the accounts whose Bindings should reach it)
and for DeviceClasses that serve extended resources. It lets go the pods that wait for a planner that is gone. No role
can limit what it patches on a pod; an admission policy can. ``/version`` needs no role but
``system:public-info-viewer``, which everybody has."""

CLAIMS = (
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceclaims", ("get",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceclaimtemplates", ("get",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceslices", ("list", "watch")),
)
"""What ``gpu-topology serve`` does besides with ``claims.enabled``: it reads what a pod claims when the pod is created,
what it was given when it is bound, and mirrors which devices drivers publish."""

PLANNER = (
    Permission(Scope.CLUSTER, "", "pods", ("get", "list", "patch", "watch")),
    Permission(Scope.CLUSTER, "", "pods/status", ("patch",)),
    Permission(Scope.CLUSTER, "events.k8s.io", "events", ("create",)),
    Permission(Scope.CLUSTER, "", "namespaces", ("list", "watch")),
    Permission(Scope.CLUSTER, "", "nodes", ("list", "watch")),
    Permission(Scope.CLUSTER, "apps", "deployments", ("list",)),
    Permission(Scope.TOPOLOGIES, "", "configmaps", ("list", "watch")),
    Permission(Scope.TOPOLOGIES, "coordination.k8s.io", "leases", ("list", "watch")),
    Permission(Scope.OWN_NAMESPACE, "coordination.k8s.io", "leases", ("get", "update"), (PLANNER_LEASE,)),
    Permission(Scope.OWN_NAMESPACE, "coordination.k8s.io", "leases", ("create",)),
)
"""What ``gpu-topology place`` does, and ``gpu-topology place release``: it mirrors pods, nodes and what the agents
publish, chooses cards while it holds its Lease, and writes the choice on the pod. HAMi's version, which the Deployments
tell, decides what its allocations mean. No role can limit what it patches on a pod; an admission policy can."""

PLAN = (
    Permission(Scope.CLUSTER, "", "pods", ("list",)),
    Permission(Scope.CLUSTER, "", "nodes", ("list",)),
    Permission(Scope.CLUSTER, "", "configmaps", ("list",)),
    Permission(Scope.CLUSTER, "coordination.k8s.io", "leases", ("list",)),
)
"""What ``gpu-topology topology plan --kubeconfig`` and ``gpu-topology claim --kubeconfig`` do, as the person who calls
them. Without pods or nodes there is no answer; without ConfigMaps or Leases only HAMi tells of links."""

EXPLAIN = (
    Permission(Scope.CLUSTER, "", "pods", ("get", "list")),
    Permission(Scope.CLUSTER, "", "namespaces", ("get",)),
    Permission(Scope.CLUSTER, "", "nodes", ("get",)),
    Permission(Scope.CLUSTER, "", "configmaps", ("list",)),
    Permission(Scope.CLUSTER, "coordination.k8s.io", "leases", ("get",)),
    Permission(Scope.CLUSTER, "apps", "deployments", ("list",)),
    Permission(Scope.CLUSTER, "admissionregistration.k8s.io", "mutatingwebhookconfigurations", ("get",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "deviceclasses", ("list",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceclaims", ("get",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceclaimtemplates", ("get",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceslices", ("list",)),
)
"""What ``gpu-topology explain`` does, as the person who calls it; without what is not allowed it says less. The Leases
are those of agents, and the planner's in the namespace that the MutatingWebhookConfiguration names. Claims, templates
and slices are asked for where the configuration has claims looked at. ``inject`` and ``bind`` read parts of it."""

PUBLISH = (
    Permission(Scope.PODS, "", "pods", ("get", "patch")),
    Permission(Scope.PODS, "events.k8s.io", "events", ("create",)),
)
"""What ``gpu-topology verify --publish`` does, as whoever calls it; without Events the annotation is written alone."""

ANALYZE = (
    Permission(Scope.CLUSTER, "", "pods", ("list",)),
    Permission(Scope.CLUSTER, "", "namespaces", ("get", "list")),
    Permission(Scope.CLUSTER, "", "nodes", ("list",)),
    Permission(Scope.CLUSTER, "", "configmaps", ("list",)),
    Permission(Scope.CLUSTER, "coordination.k8s.io", "leases", ("get", "list")),
    Permission(Scope.CLUSTER, "apps", "deployments", ("list",)),
    Permission(Scope.CLUSTER, "admissionregistration.k8s.io", "mutatingwebhookconfigurations", ("list",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "deviceclasses", ("list",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceclaims", ("list",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceclaimtemplates", ("list",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceslices", ("list",)),
    Permission(Scope.OWN_NAMESPACE, "", "secrets", ("get",), ("gpu-topology-webhook-tls",)),
)
"""What ``gpu-topology analyze`` and ``gpu-topology state save`` do, as the person who calls them. Without pods there
is no answer; what else is not allowed is a finding. Of the Secret only the certificates are looked at, which are
public. With ``analyze -n NAMESPACE`` pods, claims and templates are listed in that namespace alone, and that namespace
is got instead of all listed."""

PAGE = tuple(replace(each, verbs=(*each.verbs, "watch")) if "list" in each.verbs else each for each in ANALYZE)
"""What ``gpu-topology page`` does, as the person who calls it. Without pods there is no page; what may be listed
and not watched is listed again and again, and the page says that it is not live."""

"""The permissions of the programs at the API server, and no others. Roles are tested against this list."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from webhook.words.names import PLANNER_LEASE


class Scope(StrEnum):
    """The scope of a permission."""

    CLUSTER = "cluster"
    OWN_NAMESPACE = "own-namespace"
    """The namespace of the release, in which webhook and planner run."""
    TOPOLOGIES = "topologies"
    """The namespace in which agents publish. The installed webhook has one for this alone, because a Role cannot name
    the objects of unknown nodes, and so lets an agent write every object there."""
    PODS = "pods"
    """The namespace of the pods in question."""
    DEFAULT_NAMESPACE = "default-namespace"
    """The namespace ``default``, where the API server wants Events of objects without a namespace, such as Nodes."""


@dataclass(frozen=True, slots=True)
class Permission:
    """One rule of a Role or ClusterRole."""

    scope: Scope
    group: str
    """The API group; empty for the core group."""
    resource: str
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()
    """The names of the only permitted objects; empty for all objects. A creation cannot be limited in this way."""


AGENT = (
    Permission(Scope.CLUSTER, "", "nodes", ("get", "patch")),
    # Server-side apply is a patch, and also the creation of a missing object.
    Permission(Scope.TOPOLOGIES, "", "configmaps", ("create", "get", "patch")),
    Permission(Scope.TOPOLOGIES, "coordination.k8s.io", "leases", ("create", "patch")),
    Permission(Scope.DEFAULT_NAMESPACE, "events.k8s.io", "events", ("create",)),
)
"""The permissions of ``gpu-topology agent``. A Role cannot say *of its own node only*; an admission policy can."""

AGENT_TAINTS = (
    Permission(Scope.CLUSTER, "resource.k8s.io", "devicetaintrules", ("create", "delete", "list", "patch")),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceslices", ("list",)),
)
"""The further permissions of ``gpu-topology agent --taint-devices``. Here, too, an admission policy can say *of its own
node*. Discovery needs no role but ``system:discovery``, which every account has."""

WEBHOOK = (
    Permission(Scope.CLUSTER, "", "pods", ("get", "list", "patch")),
    Permission(Scope.CLUSTER, "events.k8s.io", "events", ("create",)),
    Permission(Scope.CLUSTER, "", "namespaces", ("get", "list", "watch")),
    Permission(Scope.CLUSTER, "", "nodes", ("list", "watch")),
    Permission(Scope.CLUSTER, "apps", "deployments", ("list",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "deviceclasses", ("list",)),
    Permission(Scope.CLUSTER, "node.k8s.io", "runtimeclasses", ("get",)),
    Permission(Scope.TOPOLOGIES, "", "configmaps", ("list", "watch")),
    Permission(Scope.TOPOLOGIES, "coordination.k8s.io", "leases", ("list", "watch")),
    # The name allows a list or watch with a field selector for it (kubernetes.io, "Referring to resources").
    Permission(Scope.OWN_NAMESPACE, "coordination.k8s.io", "leases", ("list", "watch"), (PLANNER_LEASE,)),
)
"""The permissions of ``gpu-topology serve``. It reads the pod of each Binding, lists the pods of its group, and writes
Events about failures. With ``--state kubernetes`` it mirrors namespaces, the metadata of Nodes, and the objects of the
agents; gets a namespace in doubt; and lists HAMi's schedulers (for their version, and for the accounts whose Bindings
should reach it) and the DeviceClasses that serve extended resources. It releases pods that wait for a planner that is
gone. No role can limit what it patches on a pod; an admission policy can. ``/version`` needs no role but
``system:public-info-viewer``, which every account has."""


def certificates(secret: str, configuration: str) -> tuple[Permission, ...]:
    """Return the further permissions of ``gpu-topology serve --tls managed``: of all replicas, as each may lead."""
    return (
        # Without create: no role can limit that to a name (kubernetes.io, "Referring to resources"), and an account
        # that may create Secrets gets a token of any account of the namespace by one of type service-account-token.
        Permission(Scope.OWN_NAMESPACE, "", "secrets", ("get", "update"), (secret,)),
        Permission(Scope.OWN_NAMESPACE, "coordination.k8s.io", "leases", ("get", "update"), (secret,)),
        Permission(Scope.OWN_NAMESPACE, "coordination.k8s.io", "leases", ("create",)),
        Permission(
            Scope.CLUSTER,
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            ("get", "patch"),
            (configuration,),
        ),
    )


CLAIMS = (
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceclaims", ("get",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceclaimtemplates", ("get",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceslices", ("list", "watch")),
)
"""The further permissions of ``gpu-topology serve`` with ``claims.enabled``. It reads the claims of a pod when the pod
is created, and the allocation when the pod is bound, and mirrors the devices that drivers publish."""

PLANNER = (
    Permission(Scope.CLUSTER, "", "pods", ("get", "list", "patch", "watch")),
    Permission(Scope.CLUSTER, "scheduling.k8s.io", "podgroups", ("get",)),
    Permission(Scope.CLUSTER, "scheduling.k8s.io", "workloads", ("get",)),
    Permission(Scope.CLUSTER, "scheduling.x-k8s.io", "podgroups", ("get",)),
    Permission(Scope.CLUSTER, "scheduling.volcano.sh", "podgroups", ("get",)),
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
"""The permissions of ``gpu-topology place`` and ``gpu-topology place release``. The program mirrors pods, nodes and the
objects of the agents, chooses cards while it holds its Lease, and writes the choice on the pod. It gets the object that
makes the pods of a group, to know what those will ask for that are not there yet, and the PodGroup that pods name, to
know their number. HAMi's version, read
from the Deployments, decides the meaning of its allocations. No role can limit what it patches on a pod; an admission
policy can."""

PLAN = (
    Permission(Scope.CLUSTER, "", "pods", ("list",)),
    Permission(Scope.CLUSTER, "", "nodes", ("list",)),
    Permission(Scope.CLUSTER, "", "configmaps", ("list",)),
    Permission(Scope.CLUSTER, "coordination.k8s.io", "leases", ("list",)),
)
"""The permissions of ``gpu-topology topology plan --kubeconfig`` and ``gpu-topology claim --kubeconfig``, as the user
who calls them. Without pods or nodes there is no answer. Without ConfigMaps or Leases, links are known from HAMi
alone. ``claim`` lists ResourceSlices too, as ``gpu-topology-reader`` may; without them partitions of NVSwitches are not
known."""

DEFRAG = (Permission(Scope.CLUSTER, "policy", "poddisruptionbudgets", ("list",)),)
"""The further permissions of ``gpu-topology defrag`` beside those of ``analyze``, as the user who calls it."""

EVICT = (Permission(Scope.CLUSTER, "", "pods/eviction", ("create",)),)
"""The further permission of ``gpu-topology defrag --apply``. Who has it can stop pods of every namespace, within their
PodDisruptionBudgets, so it is for administrators, and no role of the chart has it."""

EXPLAIN = (
    Permission(Scope.CLUSTER, "", "pods", ("get", "list")),
    Permission(Scope.CLUSTER, "", "namespaces", ("get",)),
    Permission(Scope.CLUSTER, "", "nodes", ("get",)),
    Permission(Scope.CLUSTER, "", "configmaps", ("list",)),
    Permission(Scope.CLUSTER, "coordination.k8s.io", "leases", ("get",)),
    Permission(Scope.CLUSTER, "apps", "deployments", ("list",)),
    Permission(Scope.CLUSTER, "admissionregistration.k8s.io", "mutatingwebhookconfigurations", ("get",)),
    Permission(Scope.CLUSTER, "node.k8s.io", "runtimeclasses", ("get",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "deviceclasses", ("list",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceclaims", ("get",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceclaimtemplates", ("get",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceslices", ("list",)),
)
"""The permissions of ``gpu-topology explain``, as the user who calls it. Without some of them it reports less. The
Leases are those of agents, and the planner's in the namespace that the MutatingWebhookConfiguration names. Claims,
templates and slices are read if the configuration enables claims. ``inject`` and ``bind`` use some of these."""

WORKLOADS = (
    Permission(Scope.CLUSTER, "apps", "deployments", ("get",)),
    Permission(Scope.CLUSTER, "apps", "replicasets", ("get",)),
    Permission(Scope.CLUSTER, "apps", "statefulsets", ("get",)),
    Permission(Scope.CLUSTER, "apps", "daemonsets", ("get",)),
    Permission(Scope.CLUSTER, "batch", "jobs", ("get",)),
)
"""The further permissions of ``gpu-topology explain KIND/NAME``, as the user who calls it: one for each kind."""

NAMESPACE = (
    Permission(Scope.CLUSTER, "", "namespaces", ("get",)),
    Permission(Scope.CLUSTER, "apps", "deployments", ("list",)),
    Permission(Scope.CLUSTER, "apps", "statefulsets", ("list",)),
    Permission(Scope.CLUSTER, "apps", "daemonsets", ("list",)),
    Permission(Scope.CLUSTER, "apps", "replicasets", ("list",)),
    Permission(Scope.CLUSTER, "batch", "cronjobs", ("list",)),
    Permission(Scope.CLUSTER, "batch", "jobs", ("list",)),
)
"""The further permissions of ``gpu-topology namespace`` beside those of ``analyze``, as the user who calls it. A kind
that may not be listed is known from its pods alone."""

NAMESPACE_CHANGE = (Permission(Scope.CLUSTER, "", "namespaces", ("patch",)),)
"""The further permission of ``gpu-topology namespace --apply``. Who has it can give a namespace every permission label,
so it is for administrators, and no role of the chart has it."""

PUBLISH = (
    Permission(Scope.PODS, "", "pods", ("get", "patch")),
    Permission(Scope.PODS, "events.k8s.io", "events", ("create",)),
)
"""The permissions of ``gpu-topology verify --publish``, as its caller. Without Events it writes just the annotation."""

ANALYZE = (
    Permission(Scope.CLUSTER, "", "pods", ("list",)),
    Permission(Scope.CLUSTER, "", "namespaces", ("get", "list")),
    Permission(Scope.CLUSTER, "", "nodes", ("list",)),
    Permission(Scope.CLUSTER, "", "configmaps", ("list",)),
    Permission(Scope.CLUSTER, "coordination.k8s.io", "leases", ("get", "list")),
    Permission(Scope.CLUSTER, "", "events", ("list",)),
    Permission(Scope.CLUSTER, "apps", "deployments", ("list",)),
    Permission(Scope.CLUSTER, "apps", "daemonsets", ("list",)),
    Permission(Scope.CLUSTER, "discovery.k8s.io", "endpointslices", ("list",)),
    Permission(Scope.CLUSTER, "admissionregistration.k8s.io", "mutatingwebhookconfigurations", ("list",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "deviceclasses", ("list",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceclaims", ("list",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceclaimtemplates", ("list",)),
    Permission(Scope.CLUSTER, "resource.k8s.io", "resourceslices", ("list",)),
    Permission(Scope.OWN_NAMESPACE, "", "secrets", ("get",), ("gpu-topology-webhook-tls",)),
)
"""The permissions of ``gpu-topology analyze`` and ``gpu-topology state save``, as the user who calls them. Without pods
there is no answer; every other missing permission is a finding. Of the Secret only the certificates are read, which are
public. With ``analyze -n NAMESPACE`` pods, claims and templates are listed in that namespace alone, and that namespace
is read with a get instead of a list of all."""

PAGE = tuple(replace(each, verbs=(*each.verbs, "watch")) if "list" in each.verbs else each for each in ANALYZE)
"""The permissions of ``gpu-topology page``, as the user who calls it. Without pods there is no page. Objects that may
be listed but not watched are listed again and again, and the page says that it is not live."""


def _one_role(lists: Iterable[tuple[Permission, ...]]) -> tuple[Permission, ...]:
    """Return what these lists permit for all objects of the whole cluster, as one permission for each resource."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for each in (each for one in lists for each in one):
        if each.scope is Scope.CLUSTER:
            verbs.setdefault((each.group, each.resource), set()).update(each.verbs)
    return tuple(
        Permission(Scope.CLUSTER, group, resource, tuple(sorted(found))) for (group, resource), found in verbs.items()
    )


READER = _one_role((EXPLAIN, WORKLOADS, NAMESPACE, PAGE, PLAN, DEFRAG))
"""The ClusterRole ``gpu-topology-reader`` of the chart, which an administrator binds to people. It has all that the
commands that only look read, except Secrets: without them certificates are not known."""

VIEW = (
    Permission(Scope.PODS, "", "pods", ("get", "list", "watch")),
    Permission(Scope.PODS, "", "namespaces", ("get",)),
    Permission(Scope.PODS, "resource.k8s.io", "resourceclaims", ("get", "list", "watch")),
    Permission(Scope.PODS, "resource.k8s.io", "resourceclaimtemplates", ("get", "list", "watch")),
    *(replace(each, scope=Scope.PODS) for each in WORKLOADS),
)
"""The ClusterRole ``gpu-topology-view`` of the chart, which Kubernetes adds to its roles ``view``, ``edit`` and
``admin``. It has what ``explain`` and ``status`` read of one namespace, and nothing of the cluster."""

"""What the API server must permit to whoever looks after certificates, no more; roles are tested against it."""

from dataclasses import dataclass
from enum import StrEnum

from certs.spec import CertificateSpec


class Scope(StrEnum):
    """Where a permission is needed."""

    CLUSTER = "cluster"
    OWN_NAMESPACE = "own-namespace"


@dataclass(frozen=True, slots=True)
class Permission:
    """One rule of a Role or ClusterRole."""

    scope: Scope
    group: str
    """API group; empty for the core."""
    resource: str
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()
    """Of these objects alone; empty: of all."""


def keeper_permissions(spec: CertificateSpec) -> tuple[Permission, ...]:
    """What each replica does, because each may become the leader."""
    return (
        # Not create: no role can limit that to a name (kubernetes.io, "Referring to resources"), and whoever may create
        # Secrets gets a token of any account of the namespace by one of type service-account-token.
        Permission(Scope.OWN_NAMESPACE, "", "secrets", ("get", "update"), (spec.secret,)),
        Permission(Scope.OWN_NAMESPACE, "coordination.k8s.io", "leases", ("get", "patch"), (spec.leader_lease,)),
        Permission(Scope.OWN_NAMESPACE, "coordination.k8s.io", "leases", ("create",)),
        Permission(
            Scope.CLUSTER,
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            ("get", "patch"),
            (spec.configuration,),
        ),
    )

"""The permissions that the care of certificates needs at the API server, no more. Roles are tested against them."""

from dataclasses import dataclass
from enum import StrEnum

from certs.spec import CertificateSpec


class Scope(StrEnum):
    """The scope of a permission."""

    CLUSTER = "cluster"
    OWN_NAMESPACE = "own-namespace"


@dataclass(frozen=True, slots=True)
class Permission:
    """One rule of a Role or ClusterRole."""

    scope: Scope
    group: str
    """The API group; empty for the core group."""
    resource: str
    verbs: tuple[str, ...]
    resource_names: tuple[str, ...] = ()
    """The names of the only permitted objects; empty for all objects."""


def keeper_permissions(spec: CertificateSpec) -> tuple[Permission, ...]:
    """Return the permissions of each replica, because each may become the leader."""
    return (
        # Without create: no role can limit that to a name (kubernetes.io, "Referring to resources"), and an account
        # that may create Secrets gets a token of any account of the namespace by one of type service-account-token.
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

"""What each replica says it serves, in a Lease of its own, and which of them still live."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from certs.election import ObservedLease, look, micro_time
from certs.spec import CertificateSpec

API_VERSION = "coordination.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a replica is: its Pod, and something that no other process has."""

    pod: str
    unique: str
    pod_uid: str = ""
    """Empty: the Lease does not go away with the Pod."""

    def __str__(self) -> str:
        return f"{self.pod}_{self.unique}"


@dataclass(frozen=True, slots=True)
class Fleet:
    """What one observer knows of the replicas, by its own clock."""

    seen: Mapping[str, ObservedLease]
    """By the name of the Lease."""
    served: Mapping[str, frozenset[str]]
    """By the name of the Lease, what live replicas serve: fingerprints of authorities."""
    at: float
    """When it last looked."""


def report(
    spec: CertificateSpec, identity: Identity, serves: Iterable[str], at: datetime, *, every: float
) -> dict[str, Any]:
    """The Lease, as it is applied; a replica that serves nothing any more says so, and is not waited for."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": identity.pod, "uid": identity.pod_uid}
    return {
        "apiVersion": API_VERSION,
        "kind": "Lease",
        "metadata": {
            "name": spec.replica_lease(identity.pod),
            "namespace": spec.namespace,
            "labels": {spec.marks.replica: spec.secret},
            "annotations": {spec.marks.serves: ",".join(sorted(serves))},
            **({"ownerReferences": [owner]} if identity.pod_uid else {}),
        },
        "spec": {
            "holderIdentity": str(identity),
            "leaseDurationSeconds": math.ceil(every),
            "renewTime": micro_time(at),
        },
    }


def muster(
    before: Fleet | None, leases: Iterable[Mapping[str, Any]], now: float, spec: CertificateSpec, *, gone: float
) -> Fleet:
    """What is known after another look at all these Leases.

    Who has not looked for long begins anew: the API server may have been away, for the replicas too.
    """
    known = before.seen if before is not None and now - before.at < gone / 4 else {}
    seen: dict[str, ObservedLease] = {}
    served: dict[str, frozenset[str]] = {}
    for lease in leases:
        metadata = lease.get("metadata") or {}
        name = str(metadata.get("name", ""))
        seen[name] = look(known.get(name), lease, now)
        said = (metadata.get("annotations") or {}).get(spec.marks.serves)
        if said != "" and now - seen[name].since < gone:
            served[name] = frozenset(said.split(",")) if isinstance(said, str) else frozenset()
    return Fleet(seen, served, now)

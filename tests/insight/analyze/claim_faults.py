"""Pods that get their GPUs by resource claims, and what can be wrong with them."""

import msgspec

from tests.insight.analyze.clusters import Cluster, Object, cards, h20, pairs
from tests.judge import judge, policy
from tests.pods import pod
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.claims import ClaimSpec

DRIVER = "gpu.nvidia.com"
RULES = policy(claims={"enabled": True})
"""Of the webhook that prepared the pods."""


def asked(count: int) -> Object:
    """The spec of a claim for so many GPUs."""
    return {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": count}}]}}


def claiming(name: str, where: str, *indices: int) -> tuple[Object, Object]:
    """A pod that the webhook has prepared and bound, with these cards of a node; and its claim."""
    main = {"name": "main", "image": "x", "resources": {"claims": [{"name": "gpus"}]}}
    entry = {"name": "gpus", "resourceClaimTemplateName": "linked"}
    spec = msgspec.convert(asked(len(indices)), ClaimSpec)
    _, made = judge(pod(main, resourceClaims=[entry]), rules=RULES, claim_specs={"gpus": spec})
    claim, uid = f"{name}-gpus-x1", f"uid-{name}"
    made["metadata"] |= {"name": name, "namespace": "team-a", "uid": uid}
    made["metadata"]["annotations"] |= {"gpu.topology/claimed-gpus": f"main={','.join(cards(where, *indices))}"}
    made["spec"] |= {"nodeName": where}
    made["status"] = {
        "phase": "Running",
        "resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": claim}],
    }
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
    results = [result(where, index) for index in indices]
    return {"apiVersion": "v1", "kind": "Pod"} | made, {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": claim, "namespace": "team-a", "ownerReferences": [owner]},
        "spec": asked(len(indices)),
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
        },
    }


def result(where: str, index: int) -> Object:
    return {"request": "gpus", "driver": DRIVER, "pool": where, "device": f"gpu-{index}"}


def published(topology: NodeTopology, *, generation: int = 1, slices: int = 1) -> Object:
    """The ResourceSlice of a node."""
    devices = [
        {
            "name": f"gpu-{gpu.index}",
            "attributes": {"uuid": {"string": gpu.uuid}, "type": {"string": "gpu"}},
            "capacity": {"memory": {"value": "97871Mi"}},
        }
        for gpu in topology.gpus
    ]
    pool = {"name": topology.node, "generation": generation, "resourceSliceCount": slices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{topology.node}-{generation}"},
        "spec": {"driver": DRIVER, "nodeName": topology.node, "pool": pool, "devices": devices},
    }


def template() -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "linked", "namespace": "team-a"},
        "spec": {"spec": asked(2)},
    }


def with_claims(cluster: Cluster, name: str, topology: NodeTopology, *indices: int) -> tuple[Object, Object]:
    """A pod on a node of its own, in order; the pod and its claim as they are in the cluster."""
    cluster.add_node(topology)
    made, claim = claiming(name, topology.node, *indices)
    for found in (made, claim, published(topology), template()):
        cluster.add(found)
    return cluster.get("Pod", name, "team-a"), cluster.get("ResourceClaim", claim["metadata"]["name"], "team-a")


def in_order(cluster: Cluster) -> None:
    """Nothing is wrong with it."""
    with_claims(cluster, "claims-well", h20("claimed"), 0, 1)


def unlinked(cluster: Cluster) -> None:
    with_claims(cluster, "unlinked", pairs("apart"), 0, 2)


def shared_card(cluster: Cluster) -> None:
    _, claim = with_claims(cluster, "sharing", h20("parted"), 0, 1)
    (first, _) = claim["status"]["allocation"]["devices"]["results"]
    first |= {"shareID": "a", "consumedCapacity": {"memory": "10Gi"}}


def time_slicing(cluster: Cluster) -> None:
    _, claim = with_claims(cluster, "slicing", h20("timed"), 0, 1)
    parameters = {"kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing"}}
    opaque = {"driver": DRIVER, "parameters": parameters}
    claim["status"]["allocation"]["devices"]["config"] = [{"source": "FromClaim", "opaque": opaque}]


def half_published(cluster: Cluster) -> None:
    """The driver publishes the pool anew, in two slices of which one is there."""
    with_claims(cluster, "halved", h20("republished"), 0, 1)
    cluster.add(published(h20("republished"), generation=2, slices=2))


def device_gone(cluster: Cluster) -> None:
    with_claims(cluster, "orphaned", h20("shrunk"), 0, 1)
    cluster.get("ResourceSlice", "shrunk-1")["spec"]["devices"].pop(1)


def claim_gone(cluster: Cluster) -> None:
    _, claim = with_claims(cluster, "bereft", h20("emptied"), 0, 1)
    cluster.remove("ResourceClaim", claim["metadata"]["name"], "team-a")


def template_gone(cluster: Cluster) -> None:
    made, claim = with_claims(cluster, "formless", h20("shapeless"), 0, 1)
    del made["status"]["resourceClaimStatuses"]
    cluster.remove("ResourceClaim", claim["metadata"]["name"], "team-a")
    made["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = "gone"


def of_another_pod(cluster: Cluster) -> None:
    _, claim = with_claims(cluster, "robbed", h20("taken"), 0, 1)
    claim["metadata"]["ownerReferences"][0]["uid"] = "uid-of-another"


def not_reserved(cluster: Cluster) -> None:
    _, claim = with_claims(cluster, "displaced", h20("stale"), 0, 1)
    claim["status"]["reservedFor"][0] |= {"name": "other", "uid": "uid-of-another"}

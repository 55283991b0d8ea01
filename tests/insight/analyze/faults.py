"""What can be wrong in a cluster, each with exactly what is to be said of it.

Fifteen faults are manifests that were written by hand, in ``manifests/``; the others change what is there.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from tests.decisions.place.cluster import named
from tests.hardware.topology import machines
from tests.insight.analyze import claim_faults
from tests.insight.analyze.clusters import (
    AT,
    CONFIGURATION,
    Cluster,
    Object,
    bundle,
    cards,
    endpoints,
    failed_create,
    h20,
    namespace,
    node,
    planner_lease,
    program,
    registration,
    running,
    scheduler,
    secret,
)
from tests.insight.explain.situations import injected, on
from tests.pods import container, pod

Expected = frozenset[tuple[str, str]]
OURS = f"{CONFIGURATION} gpu-topology-webhook"
CLUSTER = "Cluster cluster"
MOST = 12
"""Faults of a mixture."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong."""

    name: str
    make: Callable[[Cluster], None]
    expected: Expected
    excludes: frozenset[str] = field(default=frozenset())
    """The names of faults of the same objects."""
    changes_pods: bool = False
    """Whether it changes what is to be said of all pods."""


def _by_hand(name: str) -> Callable[[Cluster], None]:
    return lambda cluster: cluster.apply(name)


def silent_agent(cluster: Cluster) -> None:
    for found in node(h20("silent"), renewed=AT - timedelta(hours=3)):
        cluster.add(found)


def never_heard(cluster: Cluster) -> None:
    """A ConfigMap without a Lease."""
    for found in node(h20("mute"))[:2]:
        cluster.add(found)


def links_down(cluster: Cluster) -> None:
    cluster.add_node(machines.with_switch_links(h20("degraded"), 5, 12))


def slower_pair(cluster: Cluster) -> None:
    cluster.add_node(machines.bent(h20("sluggish"), 5, slower=(("GPU2", 90_000),)))


def lost_gpu(cluster: Cluster) -> None:
    cluster.add_node(machines.without(h20("lossy"), 6))


def worse_cards(cluster: Cluster) -> None:
    """Two cards of a machine of cubes that no link joins, while all others are free."""
    topology = named(machines.dgx1_v100(), "cubes")
    cluster.add_node(topology)
    cluster.add(running("unlucky", "cubes", 0, 5))


def exchange_without_peers(cluster: Cluster) -> None:
    sglang = "sglang serve --disaggregation-mode prefill --disaggregation-transfer-backend nixl"
    cluster.add_node(h20("serving"))
    cluster.add(running("prefill", "serving", 0, 1, command=["bash", "-c", sglang]))


def p2p_off(cluster: Cluster) -> None:
    found = running("copied", "extra", 0, 1, env=[{"name": "NCCL_P2P_DISABLE", "value": "1"}])
    cluster.add_node(h20("extra"))
    cluster.add(found)


def moved_by_refit(cluster: Cluster) -> None:
    """A pod whose allocation was changed after the Binding, as HAMi's NUMA refit does."""
    cluster.add_node(h20("aligned"))
    wanted = pod(container(gpus=2), schedulerName="hami-scheduler", annotations={"hami.io/numa-alignment": "strict"})
    found = on(injected(wanted), "aligned", cards("aligned", 4, 5))
    found["metadata"] |= {"name": "aligned", "uid": "uid-aligned"}
    found["metadata"]["annotations"]["gpu.topology/visible-uuids"] = ",".join(cards("aligned", 0, 1))
    cluster.add(found | {"status": {"phase": "Running"}})


def keys_like_ours(cluster: Cluster) -> None:
    cluster.add(namespace("mistaken", profile="observe"))
    spelled = {"name": "misspelled", "labels": {"gpu-topology/injection": "enabled"}}
    cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": spelled})
    found = running("mistaken", "mistaken", 0, 1)
    found["metadata"]["annotations"]["gpu.topology-profile"] = "node-peers"
    cluster.add_node(h20("mistaken"))
    cluster.add(found)


def no_planner(cluster: Cluster) -> None:
    cluster.add(planner_lease(AT - timedelta(hours=1)))
    waiting = pod(container(gpus=2), schedulerName="hami-scheduler", schedulingGates=[{"name": "gpu.topology/place"}])
    found = injected(waiting)
    found["metadata"] |= {
        "name": "stuck",
        "uid": "uid-stuck",
        "creationTimestamp": (AT - timedelta(minutes=2)).isoformat(),
        "labels": {"gpu.topology/placement": "waiting"},
    }
    cluster.add(found)


def many_of_a_deployment(cluster: Cluster) -> None:
    """Forty pods of one Deployment, in a namespace that did not opt in."""
    cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}})
    for number in range(40):
        cluster.add(replica(number))


def replica(number: int) -> Object:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "serve-6d4f", "uid": "u", "controller": True}
    found = pod(container(gpus=2), schedulerName="hami-scheduler")
    found["metadata"] = {
        "name": f"serve-6d4f-{number}",
        "namespace": "fleet",
        "uid": f"uid-serve-{number}",
        "labels": {"pod-template-hash": "6d4f"},
        "ownerReferences": [owner],
    }
    return found


def other_authority(cluster: Cluster) -> None:
    stranger = bundle(days_ago=2).authority
    cluster.add(registration(bindings=stranger))


def no_authority(cluster: Cluster) -> None:
    cluster.add(registration(pods=b""))


def expired(cluster: Cluster) -> None:
    old = bundle(days_ago=100, days=90)
    cluster.add(secret(old))
    cluster.add(registration(pods=old.authority, bindings=old.authority))


def overdue(cluster: Cluster) -> None:
    old = bundle(days_ago=85, days=90)
    cluster.add(secret(old))
    cluster.add(registration(pods=old.authority, bindings=old.authority))


def not_registered(cluster: Cluster) -> None:
    cluster.remove(CONFIGURATION, "gpu-topology-webhook")
    cluster.remove("Lease", "gpu-topology-place", "gpu-topology")


def half_registered(cluster: Cluster) -> None:
    cluster.get(CONFIGURATION, "gpu-topology-webhook")["webhooks"].pop()


def asked_once(cluster: Cluster) -> None:
    cluster.get(CONFIGURATION, "gpu-topology-webhook")["webhooks"][0]["reinvocationPolicy"] = "Never"


def no_schedulers(cluster: Cluster) -> None:
    cluster.remove("Deployment", "hami-scheduler", "kube-system")


def odd_condition(cluster: Cluster) -> None:
    condition = {"name": "odd", "expression": "request.userInfo.groups.exists(g, g == 'schedulers')"}
    cluster.get(CONFIGURATION, "gpu-topology-webhook")["webhooks"][1]["matchConditions"] = [condition]


def faulty_hami(cluster: Cluster) -> None:
    cluster.add(scheduler("2.10.0"))


def old_hami(cluster: Cluster) -> None:
    cluster.add(scheduler("2.4.1"))


def old_kubernetes(cluster: Cluster) -> None:
    cluster.kubernetes = "v1.27.4"


def unread_classes(cluster: Cluster) -> None:
    cluster.unread.append({"what": "deviceclasses", "problem": "list deviceclasses: forbidden (403)"})


def start_of(name: str, **state: object) -> Callable[[Cluster], None]:
    """A pod whose remap container is in that state."""

    def make(cluster: Cluster) -> None:
        cluster.add_node(h20(f"node-of-{name}"))
        started = running(name, f"node-of-{name}", 0, 1)
        program = {"name": "gpu-topology-remap", "state": state}
        cluster.add(started | {"status": {"phase": "Pending", "initContainerStatuses": [program]}})

    return make


def slice_on_two_cards(cluster: Cluster) -> None:
    cluster.add_node(h20("sliced"))
    limits = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 4000}
    found = on(pod(container(resources={"limits": limits})), "sliced", cards("sliced", 0, 1))
    found["metadata"] |= {"name": "small", "uid": "uid-small"}
    cluster.add(found | {"status": {"phase": "Running"}})


def no_endpoints(cluster: Cluster) -> None:
    cluster.add(endpoints(False, False))


def silent_planner(cluster: Cluster) -> None:
    cluster.add(program("planner", 2, 2))
    cluster.add(planner_lease(AT - timedelta(minutes=10)))


def missed_node(cluster: Cluster) -> None:
    cluster.add(program("agent", 3, 3))
    cluster.add_node(h20("missed"))
    cluster.remove("ConfigMap", "gpu-topology-missed", "gpu-topology-nodes")
    cluster.remove("Lease", "gpu-topology-missed", "gpu-topology-nodes")


def _adds(found: Object) -> Callable[[Cluster], None]:
    return lambda cluster: cluster.add(found)


REFUSED = (
    'admission webhook "pods.gpu.topology" denied the request: GT124: profile node-peers needs the label '
    "gpu.topology/allow-node-peers on the namespace"
)
NO_ANSWER = (
    'Internal error occurred: failed calling webhook "pods.gpu.topology": failed to call webhook: Post '
    '"https://gpu-topology-webhook.gpu-topology.svc:443/mutate?timeout=10s": no endpoints available for service'
)
NO_RUNTIME_CLASS = 'pods "serve-0" is forbidden: pod rejected: RuntimeClass "nvidia" not found'
QUOTA = (
    'pods "train-x" is forbidden: exceeded quota: gpus, requested: limits.nvidia.com/gpu=4, used: '
    "limits.nvidia.com/gpu=6, limited: limits.nvidia.com/gpu=8"
)


def unread_secret(cluster: Cluster) -> None:
    cluster.read.remove("gpu-topology-webhook-tls")
    cluster.unread.append({"what": "secrets", "problem": "get Secret gpu-topology/x: forbidden (403)", "denied": True})


def _pod(name: str, *codes: str) -> Expected:
    return frozenset((code, f"Pod {name}") for code in codes)


_CERTIFICATES = frozenset({"another authority", "no authority", "expired", "overdue"})
_REGISTRATION = _CERTIFICATES | {
    "not registered",
    "half registered",
    "asked once",
    "HAMi is asked first",
    "another scheduler",
    "odd condition",
}
FAULTS = (
    Fault("not opted in", _by_hand("not-opted-in"), _pod("plain/notebook", "GT103", "GT155", "GT210")),
    Fault("claims that are not looked at", _by_hand("claims"), _pod("team-a/claimed", "GT164")),
    Fault("claim of cards without NVLink", claim_faults.unlinked, _pod("team-a/unlinked", "GT330")),
    Fault("claim of a part of a card", claim_faults.shared_card, _pod("team-a/sharing", "GT267")),
    Fault("claim with time slices", claim_faults.time_slicing, _pod("team-a/slicing", "GT262")),
    Fault("half of a new generation", claim_faults.half_published, _pod("team-a/halved", "GT270")),
    Fault("device gone", claim_faults.device_gone, _pod("team-a/orphaned", "GT271")),
    Fault("claim gone", claim_faults.claim_gone, _pod("team-a/bereft", "GT263")),
    Fault("template gone", claim_faults.template_gone, _pod("team-a/formless", "GT292")),
    Fault("claim of another pod", claim_faults.of_another_pod, _pod("team-a/robbed", "GT266")),
    Fault("claim that is not reserved", claim_faults.not_reserved, _pod("team-a/displaced", "GT265")),
    Fault("exchange without peers", exchange_without_peers, _pod("team-a/prefill", "GT570")),
    Fault("unreadable namespace", _by_hand("namespace-unreadable"), frozenset({("GT191", "Namespace typo")})),
    Fault("namespace not allowed", _by_hand("namespace-not-allowed"), frozenset({("GT190", "Namespace serving")})),
    Fault(
        "keys like ours",
        keys_like_ours,
        frozenset(
            {("GT170", "Pod team-a/mistaken"), ("GT168", "Namespace mistaken"), ("GT170", "Namespace misspelled")}
        ),
    ),
    Fault("label without effect", _by_hand("namespace-label"), frozenset({("GT192", "Namespace eager")})),
    Fault("slice on a switch", _by_hand("slice-on-switch"), frozenset({("GT244", "Node switched")})),
    Fault("slice on a pair", _by_hand("slice-on-pair"), frozenset({("GT243", "Node paired")})),
    Fault(
        "waits for long",
        _by_hand("waiting"),
        _pod("team-a/patient", "GT157", "GT210", "GT639", "GT641"),
        frozenset({"no planner", "not registered"}),
    ),
    Fault("another scheduler", _by_hand("second-scheduler"), frozenset({("GT820", OURS)}), _REGISTRATION),
    Fault("no agent", _by_hand("no-agent"), frozenset({("GT720", "Node unwatched")})),
    Fault("posing agent", _by_hand("posing-agent"), frozenset({("GT720", "Node posed")})),
    Fault("silent agent", silent_agent, frozenset({("GT721", "Node silent")})),
    Fault("agent never heard of", never_heard, frozenset({("GT721", "Node mute")})),
    Fault("unreadable topology", _by_hand("unreadable-topology"), frozenset({("GT722", "Node garbled")})),
    Fault("links down", links_down, frozenset({("GT701", "Node degraded")})),
    Fault("slower pair", slower_pair, frozenset({("GT716", "Node sluggish")})),
    Fault("lost GPU", lost_gpu, frozenset({("GT703", "Node lossy")})),
    Fault("worse cards", worse_cards, _pod("team-a/unlucky", "GT336", "GT330")),
    Fault(
        "image missing",
        start_of("imageless", waiting={"reason": "ImagePullBackOff", "message": "not found"}),
        _pod("team-a/imageless", "GT365"),
    ),
    Fault(
        "container refused",
        start_of("refused", waiting={"reason": "CreateContainerConfigError", "message": "runs as root"}),
        _pod("team-a/refused", "GT366"),
    ),
    Fault(
        "other GPUs",
        start_of("exchanged", terminated={"exitCode": 12, "message": "GPU-1 is not there"}),
        _pod("team-a/exchanged", "GT367"),
    ),
    Fault(
        "webhook not ready",
        _adds(program("webhook", 2, 0)),
        frozenset({("GT852", "Deployment gpu-topology/gpu-topology-webhook")}),
        frozenset({"webhook half ready", "no endpoints"}),
    ),
    Fault(
        "webhook half ready",
        _adds(program("webhook", 2, 1)),
        frozenset({("GT861", "Deployment gpu-topology/gpu-topology-webhook")}),
        frozenset({"webhook not ready", "no endpoints"}),
    ),
    Fault(
        "no endpoints",
        no_endpoints,
        frozenset({("GT853", OURS)}),
        _REGISTRATION | {"webhook not ready", "webhook half ready"},
    ),
    Fault(
        "planner not ready",
        _adds(program("planner", 1, 0)),
        frozenset({("GT857", "Deployment gpu-topology/gpu-topology-planner")}),
        frozenset({"silent planner"}),
    ),
    Fault(
        "silent planner",
        silent_planner,
        frozenset({("GT858", "Deployment gpu-topology/gpu-topology-planner")}),
        frozenset({"planner not ready", "no planner", "waits for long", "not registered"}),
    ),
    Fault(
        "agents not ready",
        _adds(program("agent", 3, 2)),
        frozenset({("GT859", "DaemonSet gpu-topology/gpu-topology-agent")}),
        frozenset({"missed node", "no agent", "posing agent"}),
    ),
    Fault(
        "missed node",
        missed_node,
        frozenset({("GT860", "Node missed")}),
        frozenset({"agents not ready", "no agent", "posing agent"}),
    ),
    Fault(
        "refused",
        _adds(failed_create("ReplicaSet", "np-6d4f", f"Error creating: {REFUSED}")),
        frozenset({("GT854", "ReplicaSet team-a/np-6d4f")}),
    ),
    Fault(
        "no answer",
        _adds(failed_create("Job", "train", f"Error creating: {NO_ANSWER}")),
        frozenset({("GT855", "Job team-a/train")}),
    ),
    Fault(
        "runtime class",
        _adds(failed_create("DaemonSet", "serve", f"Error creating: {NO_RUNTIME_CLASS}")),
        frozenset({("GT862", "DaemonSet team-a/serve")}),
    ),
    Fault(
        "quota",
        _adds(failed_create("StatefulSet", "serve", f"create Pod serve-0 failed error: {QUOTA}")),
        frozenset({("GT856", "StatefulSet team-a/serve")}),
    ),
    Fault(
        "slice on two cards",
        slice_on_two_cards,
        _pod("team-a/small", "GT208") | {("GT244", "Node sliced")},
    ),
    Fault("refit", moved_by_refit, _pod("team-a/aligned", "GT348")),
    Fault("P2P off", p2p_off, _pod("team-a/copied", "GT412")),
    Fault("no planner", no_planner, _pod("team-a/stuck", "GT640"), frozenset({"waits for long", "not registered"})),
    Fault("malformed pod", _by_hand("malformed-pod"), _pod("team-a/odd", "GT193")),
    Fault(
        "many of a Deployment",
        many_of_a_deployment,
        frozenset().union(*(_pod(f"fleet/serve-6d4f-{number}", "GT103", "GT155", "GT210") for number in range(40))),
    ),
    Fault("another authority", other_authority, frozenset({("GT843", OURS)}), _REGISTRATION),
    Fault("no authority", no_authority, frozenset({("GT842", OURS)}), _REGISTRATION),
    Fault(
        "expired",
        expired,
        frozenset({("GT844", OURS), ("GT844", "Secret gpu-topology/gpu-topology-webhook-tls")}),
        _REGISTRATION,
    ),
    Fault(
        "overdue",
        overdue,
        frozenset({("GT845", OURS), ("GT845", "Secret gpu-topology/gpu-topology-webhook-tls")}),
        _REGISTRATION,
    ),
    Fault(
        "not registered",
        not_registered,
        frozenset({("GT840", OURS)}),
        _REGISTRATION | {"waits for long", "no planner"},
    ),
    Fault("half registered", half_registered, frozenset({("GT841", OURS)}), _REGISTRATION),
    Fault("HAMi is asked first", _by_hand("hami-first"), frozenset({("GT846", OURS)}), frozenset({"not registered"})),
    Fault("asked once", asked_once, frozenset({("GT847", OURS)}), _REGISTRATION),
    Fault(
        "no schedulers",
        no_schedulers,
        frozenset({("GT824", CLUSTER)}) | _pod("team-a/train", "GT234") | _pod("team-a/pair", "GT234"),
        changes_pods=True,
    ),
    Fault("odd condition", odd_condition, frozenset({("GT822", OURS)}), _REGISTRATION),
    Fault(
        "faulty HAMi",
        faulty_hami,
        frozenset({("GT848", "Deployment kube-system/hami-scheduler")})
        | _pod("team-a/train", "GT247")
        | _pod("team-a/pair", "GT247"),
        changes_pods=True,
    ),
    Fault("old HAMi", old_hami, frozenset({("GT850", "Deployment kube-system/hami-scheduler")}), changes_pods=True),
    Fault("old Kubernetes", old_kubernetes, frozenset({("GT849", CLUSTER)}), changes_pods=True),
    Fault("something unread", unread_classes, frozenset({("GT851", CLUSTER)})),
    Fault("Secret unread", unread_secret, frozenset({("GT866", CLUSTER)})),
)


def mixture(seed: int) -> list[Fault]:
    """Faults that have nothing to do with each other, drawn at random."""
    drawn = random.Random(seed)
    every = [fault for fault in FAULTS if not fault.changes_pods]
    chosen: list[Fault] = []
    for fault in drawn.sample(every, len(every)):
        taken = {name for each in chosen for name in each.excludes}
        if fault.name not in taken and not fault.excludes & {each.name for each in chosen} and len(chosen) < MOST:
            chosen.append(fault)
    return chosen

"""Conditions under which containers, or pods, reach each other's GPU memory.

NCCL joins ranks whose host hash is the same (host name, or ``NCCL_HOSTID``) and whose ``/dev/shm`` is one device. It
passes memory handles over a Unix socket of the network namespace. With ``NCCL_CUMEM_ENABLE=0`` it passes CUDA IPC
handles, which need one PID namespace, as those of UCX do. The importing side must see the GPU. Sources: NCCL
src/misc/utils.cc, src/init.cc, src/graph/paths.cc, src/os/linux_ipcsocket.cc; UCX
src/uct/cuda/cuda_ipc/cuda_ipc_iface.c.
"""

from collections.abc import Iterator

from webhook.decisions.admit.steps.node_identity import LEGACY_IPC, NODE_NAME
from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.bind.fabric import read_fabric_use
from webhook.decisions.claims.evidence import claim_title
from webhook.decisions.claims.pod import claim_names, shared_entries
from webhook.decisions.request.assigned_node import node_of
from webhook.decisions.request.gpu_lists import SHOWS_NOTHING
from webhook.decisions.request.peer_advice import IN_EXCLUSIVE, WITHOUT_PROFILE, exchange_found, fitting_profile
from webhook.decisions.request.ranks import RankedJob
from webhook.decisions.request.settings import literals
from webhook.decisions.resolve.fabric import fabric_problem, reaches_other_nodes
from webhook.insight.explain.claims import other_consumers
from webhook.insight.explain.commands import commanded_lists
from webhook.insight.explain.evidence import group_of
from webhook.insight.explain.examination import ExaminedPod, Peering
from webhook.insight.explain.findings import Finding, fails, holds, not_needed, unknown
from webhook.insight.explain.opt_in import missing
from webhook.insight.explain.users import peer_users
from webhook.insight.explain.variables import fails_between_pods
from webhook.insight.explain.words import containers, says
from webhook.objects.claims import ResourceClaim
from webhook.objects.pod import Container, EnvVar, Pod, PodSpec
from webhook.words import names
from webhook.words.catalogue.claims import CLAIM_WITHOUT_PEERS
from webhook.words.catalogue.entry import Entry
from webhook.words.catalogue.peers import (
    ABSTRACT_SOCKET_OFF,
    BLIND_IN_POD,
    BLIND_ON_NODE,
    EXCHANGE_WITHOUT_NVLINK,
    GROUP_ALONE,
    GROUP_NOT_KNOWN,
    GROUP_NOT_READ,
    GROUP_NOT_SCHEDULED,
    GROUP_ON_OTHER_NODES,
    HOST_HASHES_DIFFER,
    HOST_ID_NOT_NODE,
    HOST_IDS_DIFFER,
    ISOLATED_UNPROVEN,
    ISOLATED_WITH_EQUAL_PIDS,
    NO_GROUP,
    NO_HOST_ID,
    NO_HOST_IPC,
    NO_HOST_PID,
    NVLS_NEEDS_SOCKET,
    OWN_NETWORK,
    PEER_NOT_SCHEDULED,
    PEERS_WITHOUT_HOST_IPC,
    PEERS_WITHOUT_HOST_PID,
    PID_NAMESPACES_DIFFER,
    RANKS_NOT_KNOWN,
    RANKS_ON_ONE_NODE,
    SERVER_LACKS,
    SERVER_NOT_KNOWN,
    SHM_COVERED,
    SHM_DIFFERS,
    VISIBILITY_NOT_JUDGED,
    VISIBILITY_REFUSED,
)
from webhook.words.catalogue.variables import COMMANDS_SET_LIST
from webhook.words.choices import Isolation, Profile
from webhook.words.listing import listed
from webhook.words.printable import fitted

PEERS, SAME_NODE, HOST_HASH, SHARED_MEMORY, NETWORK, PID, VISIBILITY = (
    "peers",
    "same-node",
    "host-hash",
    "shared-memory",
    "network-namespace",
    "pid-namespace",
    "visibility",
)
FABRIC = "nvlink-fabric"
_SHOWN = 8
ABSTRACT_SOCKET = "NCCL_IPC_USE_ABSTRACT_SOCKET"


def peers(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields the conditions on peers that the profile needs; one finding in a profile without peers.

    On a node without NVLink the namespaces of the host bring none to pods, so they are not asked for.
    """
    if not examined.gpu_containers:
        yield from _server(examined)
        return
    sources = examined.evidence.sources
    node = examined.resolution.node if examined.resolution else sources.published or sources.annotated
    has_peers = examined.exchanges or examined.ranks is Peering.KNOWN or examined.profile is Profile.NODE_PEERS
    if node and node.lacks_nvlink and has_peers:
        found = says(examined.apps, "seems", "seem")
        yield fails(PEERS, EXCHANGE_WITHOUT_NVLINK.say(containers=found, node=node.name), stops=True)
    elif not examined.profile.shares_gpus:
        yield _none(examined)
    elif examined.profile is Profile.POD_PEERS:
        yield _hash_of_pod(examined)
        yield _memory_of_pod(examined)
        yield holds(NETWORK, "containers of one pod share it")
        yield _pid_of_pod(examined)
        yield _visibility(examined, BLIND_IN_POD)
        yield from peer_users(examined, [])
    elif examined.options.isolation is Isolation.ISOLATED and not examined.spec.host_pid:
        yield _same_node(examined)
        yield not_needed(SHARED_MEMORY, "isolated: NCCL takes the network between pods, and UCX needs none")
        yield _pid_of_isolated(examined)
        yield _visibility(examined, BLIND_ON_NODE)
    else:
        yield _same_node(examined)
        yield _hash_of_node(examined)
        yield _memory_of_node(examined)
        yield _network_of_node(examined)
        yield _pid_of_node(examined)
        yield _visibility(examined, BLIND_ON_NODE)
        yield from peer_users(examined, examined.evidence.peers_here)
    yield from _fabric(examined)


def _fabric(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields a finding about NVLink to other nodes, where the node of the pod has it."""
    topology = examined.resolution.node.topology if examined.resolution else None
    if topology is None or not reaches_other_nodes(topology):
        return
    use = read_fabric_use(examined.evidence.pod, examined.requests.containers)
    problem = fabric_problem(use, topology)
    if not use.spans_nodes and problem:
        yield unknown(FABRIC, problem)
    elif not use.spans_nodes:
        yield not_needed(
            FABRIC, f"node {topology.node} has NVLink to other nodes, but nothing says that the job has too"
        )
    elif use.is_off:
        yield not_needed(FABRIC, f"{names.ENV_NCCL_MNNVL_ENABLE}=0 turns NVLink to other nodes off")
    elif problem is None:
        yield holds(FABRIC, "NVLink to other nodes: nothing in the pod is against it")
    else:
        yield fails(FABRIC, problem) if use.cumem_is_off else unknown(FABRIC, problem)


def _server(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields the finding about LMCache's server, which no profile prepares because it requests no GPU."""
    spec = examined.spec
    for container in examined.servers:
        value = literals(container).get(names.ENV_NVIDIA_VISIBLE_DEVICES, "")
        needs = (
            ("hostIPC: true", spec.host_ipc),
            ("hostPID: true", spec.host_pid),
            (f"{names.ENV_NVIDIA_VISIBLE_DEVICES}=all", value not in SHOWS_NOTHING),
        )
        lacking = [need for need, has in needs if not has]
        if lacking:
            yield fails(PEERS, SERVER_LACKS.say(container=container.name, lacking=listed(lacking)))
        else:
            yield unknown(PEERS, SERVER_NOT_KNOWN.say(container=container.name))


def _none(examined: ExaminedPod) -> Finding:
    apps, exchanges = examined.apps, examined.exchanges
    if exchanges:
        where = IN_EXCLUSIVE if examined.injected else WITHOUT_PROFILE
        refusals = examined.refusals_in(fitting_profile(len(apps)))
        message = exchange_found(
            exchanges, examined.evidence.namespace, containers=len(apps), where=where, refusals=refusals
        )
        return fails(PEERS, message)
    if examined.job and examined.ranks is not Peering.NONE:
        return _ranks(examined, examined.job)
    if len(apps) < 2:
        return not_needed(
            PEERS, f"profile {examined.profile}: no other container or pod works with these GPUs{_own_shm(examined)}"
        )
    shared = examined.spec.share_process_namespace or examined.spec.host_pid
    without = "" if shared else "; without shareProcessNamespace CUDA IPC between them fails"
    said = f"profile {examined.profile}: {containers(apps)} work on their own GPUs each{without}"
    return not_needed(PEERS, f"{said}. If they are to reach each other's, set {names.PROFILE}: pod-peers")


def _ranks(examined: ExaminedPod, job: RankedJob) -> Finding:
    """Returns the finding about other ranks of the pod's job, which have no way to its GPU memory."""
    if examined.ranks is Peering.UNKNOWN:
        return unknown(PEERS, RANKS_NOT_KNOWN.say(job=job.name))
    others = listed((other.display_name for other in examined.evidence.ranks), _SHOWN)
    message = RANKS_ON_ONE_NODE.say(job=job.name, others=others, node=examined.evidence.node)
    return fails(PEERS, message, stops=examined.has_single_gpus)


def _own_shm(examined: ExaminedPod) -> str:
    of_node = {volume.name for volume in examined.spec.volumes or () if volume.is_shared_memory_of_node}
    mounted = [
        container
        for container in examined.gpu_containers
        if container.mounts.get(names.SHARED_MEMORY_PATH) not in {None, *of_node}
    ]
    if not (examined.spec.host_ipc and mounted):
        return ""
    return (
        f"; the pod is in the host's IPC namespace, but {says(mounted, 'mounts', 'mount')} a volume at "
        f"{names.SHARED_MEMORY_PATH}: to NCCL in other pods of the node that is another machine"
    )


def _hash_of_pod(examined: ExaminedPod) -> Finding:
    values = {_host_id(container.own_env.get(names.ENV_NCCL_HOSTID)) for container in examined.gpu_containers}
    if len(values) > 1:
        return fails(HOST_HASH, HOST_IDS_DIFFER.say(containers=containers(examined.gpu_containers)))
    return holds(HOST_HASH, "containers of one pod have one host name")


def _host_id(variable: EnvVar | None) -> object:
    """Returns a key for a value of ``NCCL_HOSTID``: equal values have equal keys."""
    if variable is None:
        return None
    return "node" if variable.reads(NODE_NAME) else variable.value or variable.value_from is not None


def _memory_of_pod(examined: ExaminedPod) -> Finding:
    volumes = {container.mounts.get(names.SHARED_MEMORY_PATH) for container in examined.gpu_containers}
    if len(volumes) > 1:
        shown = listed(sorted(volume or "no volume" for volume in volumes))
        return fails(SHARED_MEMORY, SHM_DIFFERS.say(volumes=shown))
    volume = next(iter(volumes), None)
    if volume:
        return holds(SHARED_MEMORY, f"all mount volume {volume} at {names.SHARED_MEMORY_PATH}")
    own = "the host's" if examined.spec.host_ipc else "the pod's own, of 64 MiB unless the runtime says otherwise"
    return holds(SHARED_MEMORY, f"{names.SHARED_MEMORY_PATH} is {own}")


def _pid_of_pod(examined: ExaminedPod) -> Finding:
    if examined.spec.share_process_namespace or examined.spec.host_pid:
        return holds(PID, "its containers share one PID namespace")
    return fails(PID, PID_NAMESPACES_DIFFER.say())


def _pid_of_isolated(examined: ExaminedPod) -> Finding:
    has_remap = any(
        container.name.startswith(names.REMAP_CONTAINER) for container in examined.spec.init_containers or ()
    )
    if examined.spec.share_process_namespace and has_remap:
        return unknown(PID, ISOLATED_UNPROVEN.say())
    return fails(PID, ISOLATED_WITH_EQUAL_PIDS.say())


def _visibility(examined: ExaminedPod, blind_entry: Entry) -> Finding:
    commanded = commanded_lists(examined, COMMANDS_SET_LIST)
    if commanded:
        return fails(VISIBILITY, commanded)
    step = examined.steps.get("claims" if examined.family == CLAIM else "visibility")
    if step is None:
        return unknown(VISIBILITY, VISIBILITY_NOT_JUDGED.say(refusal=examined.fitting.refusal))
    if step.refusal:
        return fails(VISIBILITY, VISIBILITY_REFUSED.say(refusal=step.refusal))
    if examined.family == CLAIM:
        said = says(
            examined.gpu_containers, "sees the GPUs of its claims", "see the GPUs of the claims that they share"
        )
        return holds(VISIBILITY, said)
    paths = [operation.path for operation in missing(step)]
    blind = [
        container
        for container in examined.gpu_containers
        if any(path.startswith(container.path + "/") for path in paths)
    ]
    if blind:
        found = says(blind, "sees no GPUs but its own", "see no GPUs but their own")
        return fails(VISIBILITY, blind_entry.say(containers=found))
    whose = "all GPUs of the pod" if examined.profile is Profile.POD_PEERS else "all GPUs of the node"
    said = says(examined.gpu_containers, f"sees {whose} and uses its own", f"see {whose} and use their own")
    return holds(VISIBILITY, said)


def _same_node(examined: ExaminedPod) -> Finding:
    evidence = examined.evidence
    shared = list(_shared_claims(examined)) if examined.family == CLAIM else []
    if shared:
        return _by_claims(examined, shared)
    group = group_of(evidence.pod, evidence.namespace, evidence.policy)
    if not group:
        return unknown(SAME_NODE, NO_GROUP.say())
    if evidence.others is None:
        problem = evidence.reading.group_problem
        if problem:
            return unknown(SAME_NODE, GROUP_NOT_READ.say(group=group, problem=problem))
        return unknown(SAME_NODE, GROUP_NOT_KNOWN.say(group=group))
    if not evidence.others:
        return unknown(SAME_NODE, GROUP_ALONE.say(group=group))
    if not evidence.node:
        return unknown(SAME_NODE, PEER_NOT_SCHEDULED.say())
    away = [
        (other.display_name, node_of(other)) for other in evidence.others if node_of(other) not in ("", evidence.node)
    ]
    if away:
        told = listed(f"{name} is on node {node}" for name, node in away)
        return fails(SAME_NODE, GROUP_ON_OTHER_NODES.say(others=told, node=evidence.node))
    here = listed(other.display_name for other in evidence.peers_here)
    if not here:
        return unknown(SAME_NODE, GROUP_NOT_SCHEDULED.say(group=group))
    return holds(SAME_NODE, f"{here} of group {group} on node {evidence.node} too")


def _shared_claims(examined: ExaminedPod) -> Iterator[ResourceClaim]:
    """Yields the claims for GPUs of the pod that other pods may name too."""
    pod, known = examined.evidence.pod, examined.evidence.claims
    names, may_be_shared = claim_names(pod).by_entry, shared_entries(pod)
    entries = dict.fromkeys(use.entry for claimed in examined.claimed for use in claimed.uses)
    found = (known.claims.get(names.get(entry, "")) for entry in entries if entry in may_be_shared)
    return (claim for claim in found if claim)


def _by_claims(examined: ExaminedPod, shared: list[ResourceClaim]) -> Finding:
    """Returns the finding about pods with the same claims, which are on one node like the devices of the claims."""
    titles = listed(claim_title(fitted(claim.metadata.name)) for claim in shared)
    others = dict.fromkeys(fitted(consumer.name) for claim in shared for consumer in other_consumers(examined, claim))
    if not others:
        return unknown(SAME_NODE, CLAIM_WITHOUT_PEERS.say(claims=titles))
    uses = "uses" if len(others) == 1 else "use"
    return holds(SAME_NODE, f"{listed(others, _SHOWN)} {uses} {titles} too, whose devices are on one node")


def _hash_of_node(examined: ExaminedPod) -> Finding:
    if not examined.spec.host_network:
        without = [container for container in examined.gpu_containers if names.ENV_NCCL_HOSTID not in container.own_env]
        if without:
            return fails(HOST_HASH, NO_HOST_ID.say(containers=says(without, "has", "have")))
        other = [
            container
            for container in examined.gpu_containers
            if not container.own_env[names.ENV_NCCL_HOSTID].reads(NODE_NAME)
        ]
        if other:
            return fails(HOST_HASH, HOST_ID_NOT_NODE.say(containers=says(other, "has", "have")))
    others = [
        other.display_name
        for other in examined.evidence.peers_here
        if _hash_kind(other) != _hash_kind(examined.evidence.pod)
    ]
    if others:
        return fails(HOST_HASH, HOST_HASHES_DIFFER.say(pods=listed(others)))
    how = "the host network gives it" if examined.spec.host_network else f"{names.ENV_NCCL_HOSTID} is"
    return holds(HOST_HASH, f"{how} the name of the node")


def _hash_kind(pod: Pod) -> object:
    """Returns a key for the source of the host hash of a pod.

    A pod without the host network and without ``NCCL_HOSTID`` has a key of its own.
    """
    spec = pod.spec or PodSpec()
    if spec.host_network and not any(_host_ids(spec)):
        return "host network"
    return frozenset(_host_ids(spec)) or pod.display_name


def _host_ids(spec: PodSpec) -> Iterator[object]:
    for container in spec.containers or ():
        variable = _variable(container, names.ENV_NCCL_HOSTID)
        if variable is not None:
            yield _host_id(variable)


def _variable(container: Container, name: str) -> EnvVar | None:
    return {variable.name: variable for variable in container.env or ()}.get(name)


def _memory_of_node(examined: ExaminedPod) -> Finding:
    if not examined.spec.host_ipc:
        return fails(SHARED_MEMORY, NO_HOST_IPC.say())
    of_node = {volume.name for volume in examined.spec.volumes or () if volume.is_shared_memory_of_node}
    mounted = [
        container
        for container in examined.gpu_containers
        if container.mounts.get(names.SHARED_MEMORY_PATH) not in {None, *of_node}
    ]
    if mounted:
        volume = mounted[0].mounts[names.SHARED_MEMORY_PATH]
        return fails(SHARED_MEMORY, SHM_COVERED.say(containers=says(mounted, "mounts", "mount"), volume=volume))
    others = [other.display_name for other in examined.evidence.peers_here if not (other.spec or PodSpec()).host_ipc]
    if others:
        return fails(SHARED_MEMORY, PEERS_WITHOUT_HOST_IPC.say(pods=listed(others)))
    return holds(SHARED_MEMORY, f"{names.SHARED_MEMORY_PATH} is the host's")


def _network_of_node(examined: ExaminedPod) -> Finding:
    if examined.spec.host_network:
        return holds(NETWORK, "the pod is in the host's network, where NCCL's sockets meet")
    settings = [container.own_env for container in examined.gpu_containers]
    if all(_is_literal(env.get(names.ENV_NCCL_CUMEM_ENABLE), LEGACY_IPC) for env in settings):
        sharp = [
            container for container in examined.gpu_containers if names.ENV_NCCL_NVLS_ENABLE not in container.own_env
        ]
        if sharp and fails_between_pods(examined):
            return fails(NETWORK, NVLS_NEEDS_SOCKET.say(containers=says(sharp, "has", "have")))
        return holds(
            NETWORK, f"{names.ENV_NCCL_CUMEM_ENABLE}=0: NCCL passes CUDA IPC handles, for which it does not matter"
        )
    if all(_is_literal(env.get(ABSTRACT_SOCKET), "0") for env in settings):
        return unknown(NETWORK, ABSTRACT_SOCKET_OFF.say())
    return fails(NETWORK, OWN_NETWORK.say())


def _is_literal(variable: EnvVar | None, text: str) -> bool:
    return variable is not None and variable.value_from is None and variable.value == text


def _pid_of_node(examined: ExaminedPod) -> Finding:
    if not examined.spec.host_pid:
        return fails(PID, NO_HOST_PID.say())
    others = [other.display_name for other in examined.evidence.peers_here if not (other.spec or PodSpec()).host_pid]
    if others:
        return fails(PID, PEERS_WITHOUT_HOST_PID.say(pods=listed(others)))
    return holds(PID, "the pod is in the host's PID namespace")

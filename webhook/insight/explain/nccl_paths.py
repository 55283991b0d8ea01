"""The condition on what NCCL itself says: whether its log shows NVLink between the GPUs of the pod."""

from collections.abc import Iterator, Mapping, Set
from itertools import chain
from typing import NamedTuple

from webhook.decisions.request.settings import P2P_DISABLE
from webhook.hardware.topology.model import Gpu
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, fails, hint, holds, not_needed, unknown
from webhook.insight.explain.measurements import newer_nccl
from webhook.insight.explain.nccl_log import NcclLog, Path, Process, Warned
from webhook.words import names
from webhook.words.catalogue import traffic as words
from webhook.words.catalogue.entry import Message
from webhook.words.listing import counted, listed

NCCL_LOG = "nccl-log"
_HOST_NAME_LIMIT = 63
"""Characters of a host name: the kubelet cuts longer names of pods (Kubernetes pkg/kubelet/kubelet_pods.go)."""
_SHOWN = 6
_OVER_NVLINK = ("NVL", "NVB")
"""Values of ``NCCL_P2P_LEVEL`` with which P2P goes over NVLink alone, if NCCL looked for the links itself."""
_JOINING = ("peer access", "failed to peer", "P2P is disabled between NVLINK", "cudaIpc", "shared memory", "NVLS")
"""Parts of errors of what joins GPUs: NCCL src/transport/p2p.cc, src/transport/nvls.cc, src/graph/paths.cc and
src/misc/shmutils.cc. NCCL ends with each of them."""
_CUDA_FAILED = ("Cuda failure", "CUDA error")
"""Parts of errors of any call of CUDA, also of one that has nothing to do with links."""


class _Seen(NamedTuple):
    """What the log shows of the pod."""

    joined: Set[int]
    """The bus ids of GPUs that NCCL joined to others by NVLink."""
    lost: Mapping[str, None]
    """The pairs that NCCL joined by something else, in words."""
    undecided: Mapping[str, None]
    """The pairs of which it is not known whether NVLink joins them, in words."""


def nccl_log(examined: ExaminedPod) -> Iterator[Finding]:
    """Yield what NCCL's log shows; nothing without a log."""
    log = examined.evidence.nccl_log
    if log is None:
        return
    host = _host_name(examined)
    own = _own(examined)
    if not _needed(examined, own):
        yield not_needed(NCCL_LOG, "no container has two GPUs")
        return
    unusable = _unusable(examined, log, host, own)
    if unusable:
        yield unknown(NCCL_LOG, unusable)
        return
    if errors := _errors(log, host):
        yield fails(NCCL_LOG, words.LOG_SHOWS_ERROR.say(error=listed(errors, 2)), stops=True)
    yield _judged(examined, log, host, own)
    others = [warned.text for warned in _warnings(log, host) if warned.text not in errors]
    if others:
        yield hint(NCCL_LOG, words.LOG_WARNS.say(warnings=listed(dict.fromkeys(others), 3)))
    yield from newer_nccl(log.version)


def _host_name(examined: ExaminedPod) -> str:
    """Return the host name of the pod as NCCL prints it: up to the first dot; empty if it is not known."""
    spec, metadata = examined.spec, examined.evidence.pod.metadata
    if spec.host_network:
        return examined.evidence.node.partition(".")[0]
    name = spec.hostname or (metadata.name if metadata else None) or ""
    return name[:_HOST_NAME_LIMIT].partition(".")[0].rstrip("-")


def _own(examined: ExaminedPod) -> Mapping[int, Gpu] | None:
    """Return the GPUs of the pod by bus id; None if their bus ids are not known."""
    if examined.resolution is None:
        return None
    gpus = [gpu for given in examined.resolution.containers for gpu in given.gpus]
    return {_bus(gpu.pci_bus_id): gpu for gpu in gpus} if all(gpu.pci_bus_id for gpu in gpus) else None


def _bus(text: str) -> int:
    """Return a bus id as NCCL prints it: ``0000:65:00.0`` is 0x65000 (NCCL src/misc/utils.cc, busIdToInt64)."""
    digits = text.replace(":", "").replace(".", "")
    return int(digits, 16) if digits.isalnum() and set(digits.lower()) <= set("0123456789abcdef") else -1


def _buses(log: NcclLog, host: str) -> Set[int]:
    return frozenset(chain.from_iterable(buses for sender, buses in log.buses.items() if sender.process.host == host))


def _needed(examined: ExaminedPod, own: Mapping[int, Gpu] | None) -> int:
    """Return how many GPUs of the pod NVLink has to join."""
    if own is not None and examined.resolution is not None:
        members = {index for found in examined.resolution.sets if found.weakest for index in found.gpus}
        return sum(gpu.index in members for gpu in own.values())
    counts = [container.request.count for container in examined.apps if container.request]
    return sum(count for count in counts if count > 1 or examined.profile.shares_gpus)


def _unusable(examined: ExaminedPod, log: NcclLog, host: str, own: Mapping[int, Gpu] | None) -> Message | None:
    """Return why the log says nothing of this pod; None if it does."""
    if not log.hosts:
        return words.LOG_WITHOUT_LINES.say()
    if host not in log.hosts:
        return words.LOG_OF_ANOTHER_HOST.say(hosts=listed(log.hosts, 3), host=host or "not known")
    buses = _buses(log, host)
    if not buses:
        return words.LOG_WITHOUT_BEGINNING.say()
    if any(len(found) > 1 for sender, found in log.buses.items() if sender.process.host == host):
        return words.LOG_OF_SEVERAL_CONTAINERS.say()
    strange = buses - own.keys() if own is not None else frozenset()
    if examined.spec.host_network and strange != buses:  # other pods of the node have the same host name
        return None
    if strange or (own is None and len(buses) > examined.gpus):
        return words.LOG_OF_OTHER_GPUS.say(gpus=listed(map(_bus_id, sorted(strange or buses)), 3))
    return None


def _bus_id(bus: int) -> str:
    return f"{bus >> 20:04x}:{bus >> 12 & 0xFF:02x}:{bus >> 4 & 0xFF:02x}.{bus & 0xF:x}"


def _warnings(log: NcclLog, host: str) -> list[Warned]:
    """Return what NCCL warned of, without the processes that others replaced with success."""
    of_host = (warned for warned in log.warned if warned.process.host == host)
    return [warned for warned in of_host if not _is_replaced(log, warned.process, warned.at)]


def _errors(log: NcclLog, host: str) -> list[str]:
    """Return the errors with which NCCL ended before it had joined the GPUs."""
    unfinished = {sender.process for sender, _ in log.started}
    every = _warnings(log, host)
    found = (each for each in every if each.process in unfinished or any(part in each.text for part in _JOINING))
    return list(dict.fromkeys(each.text for each in found))


def _is_replaced(log: NcclLog, process: Process, at: int) -> bool:
    """Return whether other processes took over the GPUs of a process after a line of it."""
    left = chain.from_iterable(buses for sender, buses in log.buses.items() if sender.process == process)
    taken = (log.buses[sender] for sender, line in log.completed.items() if sender.process != process and line > at)
    own = frozenset(left)
    return bool(own) and own <= frozenset(chain.from_iterable(taken))


def _judged(examined: ExaminedPod, log: NcclLog, host: str, own: Mapping[int, Gpu] | None) -> Finding:
    seen = _look(examined, log, host, own)
    if seen.lost:
        ways = listed(seen.lost, _SHOWN)
        if switch := _switch(log, host):
            return fails(NCCL_LOG, words.LOG_SHOWS_SWITCH.say(ways=ways, switch=switch), stops=not seen.joined)
        return fails(NCCL_LOG, words.LOG_SHOWS_LOSS.say(ways=ways), stops=not seen.joined)
    if seen.undecided:
        return unknown(NCCL_LOG, words.LOG_LINK_UNKNOWN.say(ways=listed(seen.undecided, _SHOWN)))
    failed = [each.text for each in _warnings(log, host) if any(part in each.text for part in _CUDA_FAILED)]
    if failed:
        return unknown(NCCL_LOG, words.LOG_ENDS_IN_ERROR.say(error=listed(dict.fromkeys(failed), 2)))
    unfinished = any(
        sender.process.host == host and not _is_replaced(log, sender.process, line)
        for (sender, _), line in log.started.items()
    )
    needed, joined = _needed(examined, own), len(seen.joined & (own.keys() if own is not None else _buses(log, host)))
    if unfinished or log.is_cut or joined < needed:
        return unknown(NCCL_LOG, words.LOG_INCOMPLETE.say(joined=joined, gpus=counted(needed, "GPU")))
    release = f"NCCL {log.version}" if log.version else "NCCL"
    return holds(NCCL_LOG, f"the log of {host} shows that {release} joined {counted(joined, 'GPU')} by NVLink")


def _look(examined: ExaminedPod, log: NcclLog, host: str, own: Mapping[int, Gpu] | None) -> _Seen:
    joined: set[int] = set()
    lost: dict[str, None] = {}
    undecided: dict[str, None] = {}
    troubled = {warned.process for warned in log.warned}
    for path in log.paths(host):
        if path.is_local is False or (own is not None and path.source not in own):
            continue  # between hosts a network is normal
        linked, is_p2p = _linked(examined, log, host, path), path.transport.startswith("P2P")
        if is_p2p and linked:
            joined.update(bus for bus in (path.source, path.target) if bus is not None)
        elif linked is not False and (is_p2p or path.is_local is None):
            undecided.setdefault(_in_words(path, own))
        elif linked is not False:
            lost.setdefault(_in_words(path, own))
    for sender in log.multicast:  # NCCL prints the line before it has set it up
        if sender.process.host == host and sender.process not in troubled:
            joined.update(log.buses.get(sender, ()))
    return _Seen(joined, lost, undecided)


def _linked(examined: ExaminedPod, log: NcclLog, host: str, path: Path) -> bool | None:
    """Return whether NVLink joins the ends of a path; None if that is not known."""
    known = _linked_on_node(examined, path)
    if known is None and path.transport.startswith("P2P"):
        level = log.settings.get((host, names.ENV_NCCL_P2P_LEVEL))
        trusts_file = (host, names.ENV_NCCL_TOPO_FILE) in log.settings
        return True if level in _OVER_NVLINK and not trusts_file else None
    return known


def _linked_on_node(examined: ExaminedPod, path: Path) -> bool | None:
    if examined.resolution is None:
        return None
    node = examined.resolution.node
    numbers = {_bus(gpu.pci_bus_id): gpu.index for gpu in node.topology.gpus if gpu.pci_bus_id}
    if not numbers:
        are_linked = all(found.every_pair_has_nvlink and not node.doubt(found) for found in examined.resolution.sets)
        return True if are_linked else None
    source = numbers.get(path.source)
    others = [numbers.get(path.target)] if path.target is not None else [n for n in numbers.values() if n != source]
    if source is None or None in others or source in others:
        return None
    pairs = [node.gpu_set((source, other)) for other in others if other is not None]
    links = {None if node.doubt(pair) else pair.every_pair_has_nvlink for pair in pairs}
    return links.pop() if len(links) == 1 else None


def _switch(log: NcclLog, host: str) -> str:
    """Return the variable with which NCCL forbids P2P, as NCCL prints it; empty if it prints none."""
    if log.settings.get((host, P2P_DISABLE)) == "1":
        return f"{P2P_DISABLE}=1"
    # Up to 2.22 NCCL prints NCCL_P2P_DISABLE=1 as the level LOC.
    is_local = log.settings.get((host, names.ENV_NCCL_P2P_LEVEL)) == "LOC"
    return f"{P2P_DISABLE}=1 or {names.ENV_NCCL_P2P_LEVEL}=LOC" if is_local else ""


def _in_words(path: Path, own: Mapping[int, Gpu] | None) -> str:
    labels = {bus: gpu.label for bus, gpu in (own or {}).items()}
    source = labels.get(path.source, _bus_id(path.source))
    target = "another GPU" if path.target is None else labels.get(path.target, _bus_id(path.target))
    return f"{source} to {target} via {path.transport}"

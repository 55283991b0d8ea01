"""What is known before a measurement: its cards and their pairs, the skipped cards, and what influences the results."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations

from webhook.hardware.discovery.facts import CardUsage
from webhook.hardware.measurement.report import Omission, Skipped, Warn
from webhook.hardware.topology.model import Gpu, MigMode, NodeTopology

IDLE_BYTES = 512 * 1024 * 1024
"""Used bytes of memory up to which a card counts as free."""
IDLE_BYTES_WITH_RESERVED = 1024 * 1024 * 1024
"""The same where the driver counts as used what it reserves for itself: 518 MiB were seen on A100, and 947 MiB on
GB300. Within it a process is known by the list of processes only."""
_PREFIXES = ("CUDA_", "GPU_TOPOLOGY_", "HAMI_", "LIBCUDA_", "NCCL_", "NVIDIA_", "UCX_")
_NAMES = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_MOST, _NAME_LENGTH = 512, 256
_HAMI = "libvgpu.so"
_MOST_PRELOADED = 64
_NVLS_SINCE = [2, 18]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The cards of a measurement, by their UUIDs."""

    cards: tuple[str, ...]
    """The cards to measure, in the order of their indices."""
    skipped: tuple[Omission, ...] = ()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of cards, each in both directions."""
        return list(permutations(self.cards, 2))


def plan(
    topology: NodeTopology,
    *,
    usage: Mapping[str, CardUsage],
    visible: Collection[str],
    asked: Collection[int] = (),
    force: bool = False,
) -> Plan:
    """Chooses the cards to measure.

    Args:
        topology: The topology of the machine.
        usage: The use of the cards, by UUID.
        visible: UUIDs of the devices that CUDA sees.
        asked: Indices of the requested cards; all if empty.
        force: Measure also cards that other processes use.
    """
    cards, skipped = [], []
    for gpu in topology.gpus:
        reason = _refusal(gpu, usage.get(gpu.uuid), visible, asked, force=force)
        if reason:
            skipped.append(Omission(cards=[gpu.uuid] if gpu.uuid else [], reason=reason))
        else:
            cards.append(gpu.uuid)
    return Plan(cards=tuple(cards), skipped=tuple(skipped))


def _refusal(
    gpu: Gpu, usage: CardUsage | None, visible: Collection[str], asked: Collection[int], *, force: bool
) -> Skipped | None:
    if asked and gpu.index not in asked:
        return Skipped.NOT_ASKED
    if gpu.mig_mode is MigMode.ENABLED:
        return Skipped.MIG
    if gpu.uuid not in visible:
        return Skipped.NOT_VISIBLE
    return None if force or is_free(usage) else Skipped.BUSY


def is_free(usage: CardUsage | None) -> bool:
    """Returns whether no process uses a card, by what the driver reports. Without a report the card is not free."""
    if usage is None or (usage.processes is None and usage.used_bytes is None):
        return False
    most = IDLE_BYTES_WITH_RESERVED if usage.is_reserved_counted else IDLE_BYTES
    return not usage.processes and (usage.used_bytes or 0) <= most


def nothing_to_measure(topology: NodeTopology, found: Plan) -> str:
    """Returns why a plan has no pair, in one sentence; empty if it has one."""
    if len(found.cards) > 1:
        return ""
    if not topology.gpus:
        return f"this machine has no GPU to measure: {topology.problem or 'NVML knows of none'}"
    if len(topology.gpus) == 1:
        return "there is one GPU here, and what is measured is the way between two"
    reasons = {omission.reason for omission in found.skipped}
    left = f"{len(found.cards) or 'none'} of {len(topology.gpus)} GPUs can be measured, and a pair needs two"
    advice = [sentence for reason, sentence in _ADVICE.items() if reason in reasons]
    return f"{left}: {'; '.join(advice)}"


_ADVICE: Mapping[Skipped, str] = {
    Skipped.BUSY: "other processes use GPUs, which --force measures all the same",
    Skipped.MIG: "GPUs in MIG mode have no NVLink",
    Skipped.NOT_VISIBLE: "CUDA does not see all of them, see CUDA_VISIBLE_DEVICES",
    Skipped.NOT_ASKED: "--gpus names fewer",
}


def telling_names(variables: Iterable[str]) -> list[str]:
    """Returns the names of the variables that influence CUDA and NCCL, sorted."""
    told = [name[:_NAME_LENGTH] for name in variables if name.startswith(_PREFIXES) or name in _NAMES]
    return sorted(told)[:_MOST]


def preloaded_libraries(text: str) -> list[str]:
    """Returns the file names in the text of ``/etc/ld.so.preload``, whose entries are separated by blanks or colons."""
    entries = text.replace(":", " ").split()
    return [entry.rsplit("/", 1)[-1][:_NAME_LENGTH] for entry in entries][:_MOST_PRELOADED]


def warnings_of(preloaded: Iterable[str]) -> list[Warn]:
    """Returns the warnings about preloaded libraries with which NCCL may hang: HAMi issue 2641."""
    return [Warn.PRELOADED_HAMI] if _HAMI in preloaded else []


def may_use_nvls(environment: Mapping[str, str], version: str) -> bool:
    """Returns whether NCCL may let NVSwitches reduce (NVLS): no variable forbids it, and the version does it by itself.

    Args:
        environment: The environment of the process that measures.
        version: NCCL's, such as ``2.27.3``. Of earlier ones than 2.18 the default does not ask the driver.
    """
    parts = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
    return parts >= _NVLS_SINCE and environment.get("NCCL_NVLS_ENABLE") != "0" and not environment.get("NCCL_ALGO")

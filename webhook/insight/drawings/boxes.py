"""The boxes of the picture: NUMA nodes, PCIe switches, NICs, GPUs. Each box has its details as a tooltip."""

from collections.abc import Iterable

from webhook.hardware.topology.model import UNKNOWN, Gpu, LostGpu, MigMode, Pcie
from webhook.insight.drawings.elements import (
    BOLD,
    MONOSPACE,
    Box,
    element,
    fit,
    group,
    line,
    path,
    rounded,
    text,
    tooltip,
    width_of,
)
from webhook.insight.drawings.layout import Card, Frame
from webhook.insight.drawings.panels import Branch, Port

_INSET = 12.0
_ROOM_BESIDE_BADGE = 84.0


def frame(found: Frame) -> str:
    """Returns the box of a NUMA node with the bar of its CPU, without the devices in it."""
    panel, cpu = found.panel, found.cpu
    name = "NUMA node not known" if panel.numa_node is None else f"NUMA {panel.numa_node}"
    name += ", continued" if panel.continued else ""
    affinity = (panel.cpu.affinity if panel.cpu else "") or next((gpu.cpu_affinity for gpu in panel.gpus), "")
    processor = [panel.cpu.vendor, panel.cpu.arch] if panel.cpu else []
    details = [name, f"CPUs {affinity}" if affinity else "", *processor]
    shown = fit(name, cpu.width - 2 * _INSET, 12, BOLD)
    parts = [
        tooltip(_joined(details)),
        rounded(found.box, "numa", 12),
        rounded(cpu, "cpu", 6),
        text(shown, cpu.x + _INSET, cpu.level + 4, "cpu-name"),
    ]
    room = cpu.width - 3 * _INSET - width_of(shown, 12, BOLD)
    if affinity and room > 80:
        parts.append(text(fit(f"CPUs {affinity}", room, 11), cpu.right - _INSET, cpu.level + 4, "cpu-list"))
    return group(parts, "numa-node")


def switch(box: Box, branch: Branch) -> str:
    """Returns the box of a PCIe switch; where no switch is known, of the word of the matrix that stands for it."""
    bus_id = branch.switch.pci_bus_id if branch.switch else ""
    wide = f"PCIe switch {bus_id}" if bus_id else f"PCIe switch{'es' * (branch.word == 'PXB')} ({branch.word})"
    narrow = bus_id or branch.word
    name = wide if width_of(wide, 11) <= box.width - 8 else fit(narrow, box.width - 4, 11)
    details = _joined([wide, _pcie(branch.switch.pcie) if branch.switch else ""])
    parts = [tooltip(details), rounded(box, "switch", 5), text(name, box.center, box.level + 4, "switch-name")]
    return group(parts, "pcie-switch")


def chip(box: Box, port: Port) -> str:
    """Returns the box of a NIC."""
    nic = port.nic
    speed = f"{nic.speed_gbps} Gbit/s" if nic.speed_gbps else ""
    kind = {"InfiniBand": "IB", "Ethernet": "Eth"}.get(nic.link_layer, "")
    width = box.width - 2 * _INSET + 6
    parts = [
        tooltip(_joined([f"{port.label} {nic.name}", nic.pci_bus_id, nic.link_layer, speed, _pcie(nic.pcie)])),
        rounded(box, "nic"),
        text(fit(nic.name, width, 12, BOLD), box.x + _INSET - 3, box.y + 18, "nic-name"),
        text(
            fit(" ".join(filter(None, [port.label, speed.replace(" Gbit/s", "G"), kind])), width, 11),
            box.x + _INSET - 3,
            box.y + 33,
            "nic-detail",
        ),
    ]
    return group(parts, "adapter")


def card(found: Card, *, chosen: bool, aside: bool, ailing: bool, place: int | None) -> str:
    """Returns the box of a GPU.

    Args:
        found: The GPU and its place.
        chosen: Whether the GPU is in the chosen set.
        aside: Whether a set is chosen and the GPU is not in it.
        ailing: Whether the GPU has fewer links than it should have.
        place: Position of the GPU in the ring, from 1; None: it has none.
    """
    gpu, box = found.gpu, found.box
    words, words_class = _links(gpu, ailing)
    outline = " ".join(["gpu", words_class, *["chosen"] * chosen])
    parts = [
        tooltip(_details(gpu)),
        rounded(box, outline),
        *_head(box, gpu.label, f"{round(gpu.memory_mib / 1024)} GiB" if gpu.memory_mib else ""),
        text(fit(_product(gpu), box.width - 2 * _INSET, 12), box.x + _INSET, box.y + 42),
        text(fit(gpu.pci_bus_id, box.width - 2 * _INSET, 11, MONOSPACE), box.x + _INSET, box.y + 60, "mono"),
        text(fit(words, _ROOM_BESIDE_BADGE, 11, BOLD), box.x + _INSET, box.y + 79, words_class),
    ]
    if place is not None:
        y = box.bottom if found.row else box.y
        parts.append(element("circle", cx=box.right - 14, cy=y, r=10, class_="badge"))
        parts.append(text(str(place), box.right - 14, y + 4, "badge-number"))
    return group(parts, "card aside" if aside else "card", data_gpu=str(gpu.index))


def lost(box: Box, gpu: LostGpu) -> str:
    """Returns the box of a GPU that the driver cannot reach, crossed out."""
    cross = line(box.x + 6, box.y + 6, box.right - 6, box.bottom - 6)
    cross += line(box.right - 6, box.y + 6, box.x + 6, box.bottom - 6)
    width = box.width - 2 * _INSET
    parts = [
        tooltip(_joined([f"{gpu.label} cannot be reached: {gpu.problem}", gpu.uuid, gpu.pci_bus_id])),
        rounded(box, "lost"),
        path(cross, "cross"),
        *_head(box, gpu.label, "lost"),
        text(fit(gpu.problem, width, 12), box.x + _INSET, box.y + 42),
        text(fit(gpu.pci_bus_id, width, 11, MONOSPACE), box.x + _INSET, box.y + 60, "mono"),
    ]
    return group(parts, "card", data_gpu=str(gpu.index))


def _head(box: Box, label: str, corner: str) -> Iterable[str]:
    yield text(label, box.x + _INSET, box.y + 22, "gpu-name")
    if corner:
        yield text(corner, box.right - _INSET, box.y + 22, "gpu-memory")


def _links(gpu: Gpu, ailing: bool) -> tuple[str, str]:
    """Returns the words of a card about its links, and their style."""
    if gpu.mig_mode is MigMode.ENABLED:
        return "MIG mode", "bad"
    wired = sum(link.count for link in gpu.nvlinks if link.target != UNKNOWN)
    if wired or ailing:
        words = f"{gpu.active_links} NVLinks" if gpu.active_links >= wired else f"{gpu.active_links}/{wired} links"
        return words, "bad" if ailing else "linked"
    return _pcie(gpu.pcie) or "no NVLink", "plain"


def _product(gpu: Gpu) -> str:
    """Returns the name of a GPU without words that would only take room on a small card."""
    return gpu.name.removeprefix("NVIDIA ").removeprefix("Tesla ")


def _details(gpu: Gpu) -> str:
    return _joined(
        [
            f"{gpu.label} {gpu.name}".strip(),
            gpu.uuid,
            gpu.pci_bus_id,
            f"/dev/nvidia{gpu.minor}" if gpu.minor is not None else "",
            f"{gpu.memory_mib} MiB" if gpu.memory_mib else "",
            f"compute capability {gpu.compute_capability}" if gpu.compute_capability else "",
            _pcie(gpu.pcie),
            *(f"{link.active} of {link.count} NVLinks to {link.target}" for link in gpu.nvlinks),
        ]
    )


def _pcie(pcie: Pcie | None) -> str:
    return f"PCIe {pcie.generation} x{pcie.width}" if pcie else ""


def _joined(details: Iterable[str]) -> str:
    return ", ".join(filter(None, details))

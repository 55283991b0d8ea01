"""The targets of NVLinks. Single links, as NVML lists them, become bonds between the devices of a topology."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from webhook.hardware.discovery.facts import GpuFacts, LinkFacts, NvmlFacts, Remote, SysfsFacts
from webhook.hardware.topology.consistency import BUS_ID
from webhook.hardware.topology.model import NVSWITCH, UNKNOWN, Gpu, NvLink

_DISPLAY_CLASS = "0x03"
"""First byte of the PCI class of a GPU."""


def unexplained_targets(nvml: NvmlFacts) -> list[str]:
    """Returns the bus ids of devices at the far end of links whose kind NVML does not report; sysfs may know it."""
    links = [link for gpu in nvml.gpus for link in gpu.links]
    return sorted({link.remote_bus_id for link in links if link.remote is Remote.UNKNOWN and link.remote_bus_id})


def links_of(gpu: GpuFacts) -> tuple[LinkFacts, ...]:
    """Returns the links that a GPU has, of those for which NVML answers.

    NVML may answer with success for link numbers that do not exist: an A100 has 12 links, and a library that knows 18
    may report the other 6 as down. If NVML answers for more links than the driver counts, the surplus is dropped from
    the silent links (not up and without a known end). A link that is up or names its end exists whatever the count is.
    """
    surplus = len(gpu.links) - gpu.link_count if gpu.link_count is not None else 0
    if surplus <= 0:
        return gpu.links
    silent = [place for place, link in enumerate(gpu.links) if link.is_silent]
    absent = set(silent[-surplus:])  # existing links have the lowest numbers
    return tuple(link for place, link in enumerate(gpu.links) if place not in absent)


class Targets:
    """The targets of the NVLinks of one machine."""

    def __init__(self, nvml: NvmlFacts, sysfs: SysfsFacts) -> None:
        self._labels = {gpu.bus_id: f"GPU{gpu.index}" for gpu in nvml.gpus if gpu.bus_id}
        self._order = [*self._labels.values(), NVSWITCH, UNKNOWN]
        self._no_switch = {gpu.bus_id for gpu in nvml.lost if gpu.bus_id} | {
            bus_id for bus_id, device in sysfs.pci.items() if device.device_class.startswith(_DISPLAY_CLASS)
        }

    def of(self, gpu: GpuFacts) -> tuple[NvLink, ...]:
        """Returns the links of one GPU, bonded by target: GPUs first, in their order."""
        targets = [(link, self.target(gpu, link)) for link in links_of(gpu) if link.remote is not Remote.CPU]
        up = {target for link, target in targets if link.up}
        # A link that is down may not name its end. If all links that are up lead to switches, this one does too.
        silent = NVSWITCH if up == {NVSWITCH} else UNKNOWN
        bonded: dict[str, list[LinkFacts]] = defaultdict(list)
        for link, target in targets:
            bonded[target or silent].append(link)
        return tuple(
            NvLink(
                target=target,
                count=len(bonded[target]),
                active=0 if target == UNKNOWN else sum(link.up for link in bonded[target]),
            )
            for target in self._order
            if target in bonded
        )

    def target(self, gpu: GpuFacts, link: LinkFacts) -> str:
        """Returns the target of a link: the label of a GPU, a switch, or unknown; empty if the link does not say.

        A link that is up and does not name its end leads to a switch that a virtual machine hides, as in NCCL
        src/graph/xml.cc.
        """
        label = self._labels.get(link.remote_bus_id)
        if label:
            return label if link.remote_bus_id != gpu.bus_id else UNKNOWN
        if link.remote is Remote.GPU or link.remote_bus_id in self._no_switch:
            return UNKNOWN
        return NVSWITCH if link.up or link.remote is Remote.SWITCH or link.remote_bus_id else ""


def with_links_back(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Returns the GPUs with a link back for each link that only one of its two GPUs reports.

    An added link is down, and replaces links of its GPU to an unknown target. If the links of that GPU cannot be read,
    the added link is as active as the peer reports.
    """
    unread = {gpu.label for gpu in gpus if gpu.links_problem}
    links = {gpu.label: {link.target: link for link in gpu.nvlinks} for gpu in gpus}
    for label, outward in links.items():
        for target, link in list(outward.items()):
            if target in links and label not in links[target]:
                active = link.active if target in unread else 0
                links[target][label] = NvLink(target=label, count=link.count, active=active)
                _take_off_unknown(links[target], link.count)
    order = [*links, NVSWITCH, UNKNOWN]
    return tuple(
        replace(gpu, nvlinks=tuple(links[gpu.label][target] for target in order if target in links[gpu.label]))
        for gpu in gpus
    )


def _take_off_unknown(links: dict[str, NvLink], count: int) -> None:
    """Takes ``count`` links, whose end became known, off the links to an unknown target."""
    unknown = links.pop(UNKNOWN, None)
    if unknown and unknown.count > count:
        links[UNKNOWN] = replace(unknown, count=unknown.count - count)


def nvswitches(nvml: NvmlFacts, targets: Targets) -> tuple[str, ...]:
    """Returns the bus ids of the NVSwitches that links name."""
    links = [(gpu, link) for gpu in nvml.gpus for link in gpu.links if BUS_ID.fullmatch(link.remote_bus_id)]
    return tuple(sorted({link.remote_bus_id for gpu, link in links if targets.target(gpu, link) == NVSWITCH}))

"""Where NVLinks lead: single links as NVML lists them become bonds between the devices of a topology."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from webhook.hardware.discovery.facts import GpuFacts, LinkFacts, NvmlFacts, Remote, SysfsFacts
from webhook.hardware.topology.consistency import BUS_ID
from webhook.hardware.topology.model import NVSWITCH, UNKNOWN, Gpu, NvLink

_DISPLAY_CLASS = "0x03"
"""First byte of the PCI class of a GPU."""


def unexplained_targets(nvml: NvmlFacts) -> list[str]:
    """Bus ids of devices at the other end of links of which NVML does not say what they are; sysfs may know."""
    links = [link for gpu in nvml.gpus for link in gpu.links]
    return sorted({link.remote_bus_id for link in links if link.remote is Remote.UNKNOWN and link.remote_bus_id})


def links_of(gpu: GpuFacts) -> tuple[LinkFacts, ...]:
    """The links that a GPU has, of those for which NVML answers.

    NVML may answer with success for numbers of links that are not there: an A100 has 12, and a library that knows 18
    may call the others down. Where it answers for more links than the driver counts, so many are not there, of those
    that are not up and do not say where they lead. A link that is up or names its end is there whatever the count says.
    """
    surplus = len(gpu.links) - gpu.link_count if gpu.link_count is not None else 0
    if surplus <= 0:
        return gpu.links
    silent = [place for place, link in enumerate(gpu.links) if link.is_silent]
    absent = set(silent[-surplus:])  # the numbers of links begin with those that are there
    return tuple(link for place, link in enumerate(gpu.links) if place not in absent)


class Targets:
    """Where NVLinks lead."""

    def __init__(self, nvml: NvmlFacts, sysfs: SysfsFacts) -> None:
        self._labels = {gpu.bus_id: f"GPU{gpu.index}" for gpu in nvml.gpus if gpu.bus_id}
        self._order = [*self._labels.values(), NVSWITCH, UNKNOWN]
        self._no_switch = {gpu.bus_id for gpu in nvml.lost if gpu.bus_id} | {
            bus_id for bus_id, device in sysfs.pci.items() if device.device_class.startswith(_DISPLAY_CLASS)
        }

    def of(self, gpu: GpuFacts) -> tuple[NvLink, ...]:
        """The links of one GPU, bonded by target: GPUs first, in their order."""
        targets = [(link, self.target(gpu, link)) for link in links_of(gpu) if link.remote is not Remote.CPU]
        up = {target for link, target in targets if link.up}
        # A link that is down may not name its end. Where all others go to switches, so does this one.
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
        """Label of a GPU, a switch, or unknown; empty if the link does not tell.

        An end without a name is a switch that a virtual machine hides, as in NCCL src/graph/xml.cc.
        """
        label = self._labels.get(link.remote_bus_id)
        if label:
            return label if link.remote_bus_id != gpu.bus_id else UNKNOWN
        if link.remote is Remote.GPU or link.remote_bus_id in self._no_switch:
            return UNKNOWN
        return NVSWITCH if link.up or link.remote is Remote.SWITCH or link.remote_bus_id else ""


def with_links_back(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """A link has two ends. One whose other end says nothing gets that end, which carries nothing.

    Where that GPU has links of which it does not tell where they lead, these are the ones. Where its links cannot be
    read, they are as the peers say.
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
    """Links whose end became known are no longer among those without one."""
    unknown = links.pop(UNKNOWN, None)
    if unknown and unknown.count > count:
        links[UNKNOWN] = replace(unknown, count=unknown.count - count)


def nvswitches(nvml: NvmlFacts, targets: Targets) -> tuple[str, ...]:
    """Bus ids of the switches that links name."""
    links = [(gpu, link) for gpu in nvml.gpus for link in gpu.links if BUS_ID.fullmatch(link.remote_bus_id)]
    return tuple(sorted({link.remote_bus_id for gpu, link in links if targets.target(gpu, link) == NVSWITCH}))

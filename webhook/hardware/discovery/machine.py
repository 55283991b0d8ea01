"""Reads the machine that we run on: the one place where NVML and sysfs meet."""

from pathlib import Path

from webhook.hardware.discovery.links import unexplained_targets
from webhook.hardware.discovery.nvml import read_nvml
from webhook.hardware.discovery.sysfs import read_sysfs
from webhook.hardware.discovery.topology import build_topology
from webhook.hardware.topology.model import NodeTopology


def discover(*, node: str, root: Path = Path("/")) -> NodeTopology:
    """The topology of this machine, as it is now.

    It raises nothing for odd, broken or missing hardware: the topology's ``problem`` and ``lost`` say what is wrong.

    Args:
        node: Name of the node.
        root: Where ``/sys`` and ``/proc`` are: in a container perhaps a mount of the host's root.
    """
    nvml = read_nvml()
    bus_ids = [gpu.bus_id for gpu in nvml.gpus]
    return build_topology(nvml, read_sysfs(root, [*bus_ids, *unexplained_targets(nvml)]), node=node)

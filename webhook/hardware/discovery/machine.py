"""Discovery of the machine that this program runs on: the only module that reads both NVML and sysfs."""

from pathlib import Path

from webhook.hardware.discovery.links import unexplained_targets
from webhook.hardware.discovery.nvml import read_nvml
from webhook.hardware.discovery.sysfs import read_sysfs
from webhook.hardware.discovery.topology import build_topology
from webhook.hardware.topology.model import NodeTopology


def discover(*, node: str, root: Path = Path("/")) -> NodeTopology:
    """Returns the present topology of this machine.

    Odd, broken or missing hardware raises nothing: the topology's ``problem`` and ``lost`` say what is wrong.

    Args:
        node: Name of the node.
        root: The directory that holds ``/sys`` and ``/proc``; in a container perhaps a mount of the host's root.
    """
    nvml = read_nvml()
    bus_ids = [gpu.bus_id for gpu in nvml.gpus]
    return build_topology(nvml, read_sysfs(root, [*bus_ids, *unexplained_targets(nvml)]), node=node)

"""What was tested, and which names are taken out of its files."""

from collections import Counter
from collections.abc import Mapping

from webhook.acceptance import steps
from webhook.acceptance.judge import Seen
from webhook.acceptance.model import Machine

_KEPT = frozenset({"localhost", "this-node", "default", "node"})
"""Words that name no one, and stand in many texts."""


def machine_of(seen: Seen) -> Machine:
    """The cards, the driver, and the libraries."""
    topology, trained = seen.topology, seen.document(steps.TRAINING)
    counts = Counter(gpu.name for gpu in topology.gpus) if topology else Counter[str]()
    return Machine(
        cards=", ".join(f"{count} x {name}" for name, count in counts.items()),
        driver=topology.driver_version if topology else "",
        cuda=topology.cuda_version if topology else "",
        nccl=seen.log(steps.NCCL_LOG).version or str(trained.get("nccl") or ""),
        torch=str(trained.get("torch") or ""),
    )


def names_of(seen: Seen, host: str) -> Mapping[str, str]:
    """The names of hosts, by what they name.

    Args:
        seen: What was seen.
        host: The name of this host.
    """
    node = seen.topology.node if seen.topology else ""
    names = (host, host.partition(".")[0], node, node.partition(".")[0])
    return {name: "host" for name in names if name and name not in _KEPT}

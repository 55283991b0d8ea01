"""What was tested, and which names are taken out of its files."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from tests.gpu import steps
from tests.gpu.judge import Seen
from tests.gpu.model import Machine
from tests.gpu.pods import CASES, HAMI, KUBERNETES, Cluster
from webhook.decisions.detection import hami_version, kubernetes_version
from webhook.words.errors import FormatError
from webhook.words.nesting import decode
from webhook.words.version import Version


class _KubectlVersion(msgspec.Struct, rename={"server": "serverVersion"}):
    server: msgspec.Raw


_KUBECTL_VERSION = msgspec.json.Decoder(_KubectlVersion)
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
        hami=_version(seen, HAMI, hami_version),
        kubernetes=_version(seen, KUBERNETES, _of_server),
    )


def _version(seen: Seen, name: str, read: Callable[[bytes], Version]) -> str:
    """Empty where it was not asked for, or cannot be told from the answer."""
    try:
        return str(read(seen.files.get(name, b"")))
    except FormatError:
        return ""


def _of_server(answer: bytes) -> Version:
    """What ``kubectl version`` says of the API server.

    Raises:
        FormatError: it says none.
    """
    try:
        found = decode(_KUBECTL_VERSION, answer)
    except msgspec.DecodeError as error:
        raise FormatError("kubectl version", expected="serverVersion", found=str(error)) from None
    return kubernetes_version(found.server)


def names_of(seen: Seen, host: str, cluster: Cluster | None) -> Mapping[str, str]:
    """The names of hosts, and what the cluster calls things, by what they name.

    Args:
        seen: What was seen.
        host: The name of this host.
        cluster: Where pods were tried.
    """
    nodes = [seen.topology.node if seen.topology else "", *_nodes_of_pods(seen)]
    hosts = (short for name in (host, *nodes) for short in (name, name.partition(".")[0]))
    found = dict.fromkeys(hosts, "host")
    if cluster:
        found |= {cluster.namespace: "namespace", cluster.image: "image"}
    return {name: kind for name, kind in found.items() if name and name not in _KEPT}


def _nodes_of_pods(seen: Seen) -> Iterator[str]:
    for case in CASES:
        spec = seen.document(case.admitted).get("spec")
        node = spec.get("nodeName") if isinstance(spec, dict) else None
        if isinstance(node, str):
            yield node

"""What HAMi's device plugin writes on a node: its register of GPUs, old and new, and its scores of pairs.

An input is JSON, ``{"register": ..., "score": ...}``; what is none is the register.
"""

import json
from collections.abc import Iterator
from itertools import permutations

from tests.fuzz.laws import check_read
from tests.fuzz.scenes import written
from tests.hardware.topology.machines import H20_UUIDS
from webhook.cluster.state.topology_objects import topology_of_node
from webhook.hardware.topology.model import NodeTopology

FIXED_CALLS, CALLS_EACH = 3000, 8.0
_PRODUCTS = (
    "NVIDIA H100 80GB HBM3",
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA-NVIDIA H20",
    "Tesla V100-SXM2-32GB",
    "NVIDIA L40S",
)


def seeds() -> Iterator[bytes]:
    """Registers of each form and of some products, with and without scores."""
    for number, name in enumerate(_PRODUCTS):
        uuids = H20_UUIDS[: 2 + number]
        old = "".join(
            f"{uuid},10,81559,100,NVIDIA-{name},{index % 2},true,{index},hami-core:" for index, uuid in enumerate(uuids)
        )
        short = "".join(f"{uuid},10,81559,100,NVIDIA-{name},0,true:" for uuid in uuids)
        new = [
            {"id": uuid, "index": index, "count": 10, "devmem": 81559, "devcore": 100, "type": name, "numa": index % 2}
            | {"mode": "hami-core", "health": bool(index), "devicepairscore": {}}
            for index, uuid in enumerate(uuids)
        ]
        rows: dict[str, dict[str, int]] = {uuid: {} for uuid in uuids}
        for one, other in permutations(uuids, 2):
            rows[one][other] = (0, 10, 1820, 450, 60)[number]
        score = json.dumps([{"uuid": uuid, "score": row} for uuid, row in rows.items()])
        for register in (old, short, json.dumps(new)):
            yield written({"register": register})
            yield written({"register": register, "score": score})


def target(data: bytes) -> None:
    """Fails where a reader lets out another error than its own, or what it has read breaks a law."""
    annotations = _annotations(data)
    check_read(data, lambda: _read(annotations), fixed=FIXED_CALLS, each=CALLS_EACH)


def _annotations(data: bytes) -> dict[str, object]:
    text = data.decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or "register" not in document:
        return {"hami.io/node-nvidia-register": text}
    found = {"hami.io/node-nvidia-register": document["register"]}
    return found | ({"hami.io/node-nvidia-score": document["score"]} if "score" in document else {})


def _read(annotations: dict[str, object]) -> NodeTopology:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "annotations": annotations}}
    return topology_of_node(node, "the cluster")

"""The annotations in which schedulers write what a pod was given: HAMi, Volcano, Koordinator, and MIG instances.

An input is a JSON object of annotations; anything else is the value of every one of them.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress

from tests.fuzz import effort
from tests.fuzz.laws import check_message
from tests.fuzz.scenes import written
from tests.hardware.topology.machines import H20_UUIDS
from webhook.decisions.allocation.assignment import assign
from webhook.decisions.allocation.model import Allocation
from webhook.decisions.allocation.reader import DIALECTS, allocated_node, read_allocation
from webhook.decisions.resolve.demand import GpuContainer
from webhook.words import names
from webhook.words.errors import FormatError

FIXED_CALLS, CALLS_EACH = 1500, 6.0
"""All dialects read the input."""
_KEYS = (*(dialect.key for dialect in DIALECTS), names.HAMI_MIG_ALLOCATIONS)


def seeds() -> Iterator[bytes]:
    """What each scheduler writes, of whole cards and of instances."""
    one, two, three = H20_UUIDS[:3]
    for value in (
        f"{one},NVIDIA,97871,100:{two},NVIDIA,97871,100:;",
        f";{one},NVIDIA,97871,100:;{two},NVIDIA,1000,30:{three},NVIDIA,97871,100:;",
        f"{one}[1-0],NVIDIA,97871,100:;",
        f",,0,0:;{one},NVIDIA,97871,100:;",
    ):
        yield written({"hami.io/vgpu-devices-allocated": value, "hami.io/vgpu-node": "node-1"})
        yield written({"volcano.sh/vgpu-ids-new": value.removesuffix(";"), "volcano.sh/vgpu-node": "node-1"})
        yield written({
            "hami.io/vgpu-devices-allocated": value,
            "hami.io/vgpu-mig-allocations": json.dumps([
                {"gpuUUID": one, "profile": "1g.10gb", "migUUID": "MIG-1", "giID": 1},
                {"gpuUUID": three, "profile": "2g.20gb"},
            ]),
        })  # fmt: skip
    resources = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "80Gi"}
    gpus = [{"minor": index, "id": uuid, "resources": resources} for index, uuid in enumerate((one, two))]
    documents: tuple[object, ...] = ({"gpu": gpus}, {"gpu": [{"minor": 3}], "rdma": [{"minor": 0}]}, {"gpu": None})
    for document in documents:
        yield written({"scheduling.koordinator.sh/device-allocated": json.dumps(document)})


def target(data: bytes) -> None:
    """Fails where a reader lets out another error than its own, or does not read what it has written."""
    annotations = _annotations(data)
    effort.sampled(data, fixed=FIXED_CALLS, each=CALLS_EACH, work=lambda: _read_all(annotations))


def _annotations(data: bytes) -> Mapping[str, str]:
    text = data.decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        document = json.loads(text)
        if isinstance(document, dict):
            return {key: value if isinstance(value, str) else json.dumps(value) for key, value in document.items()}
    return dict.fromkeys(_KEYS, text)


def _read_all(annotations: Mapping[str, str]) -> None:
    before = dict(annotations)
    for dialect in DIALECTS:
        try:
            found = read_allocation(annotations, family=dialect.family, holder="pod team-a/train")
            allocated_node(annotations, family=dialect.family)
        except FormatError as error:
            check_message(str(error))
            continue
        assert found == Allocation() or found.devices
        _check_assignment(found)
        try:
            text = dialect.format(found)
        except FormatError as error:
            check_message(str(error))
        else:
            assert dialect.parse(text, "it") == found
    assert annotations == before


def _check_assignment(found: Allocation) -> None:
    """Containers that ask for what was given get it, each its own."""
    asking = [GpuContainer(name=f"c{position}", count=len(segment)) for position, segment in enumerate(found.given)]
    try:
        pairs = assign(found, asking)
    except FormatError as error:
        check_message(str(error))
    else:
        assert tuple(device for _, devices in pairs for device in devices) == found.devices

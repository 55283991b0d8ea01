"""Koordinator's JSON, in which GPUs belong to the pod as a whole."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.decisions.allocation.pods import A
from webhook.decisions.allocation.koordinator import DIALECT
from webhook.decisions.allocation.model import Allocation, Device
from webhook.words.errors import FormatError

WHOLE = {
    "koordinator.sh/gpu-core": "100",
    "koordinator.sh/gpu-memory": "80Gi",
    "koordinator.sh/gpu-memory-ratio": "100",
}


def one(**resources: object) -> str:
    """A GPU with what stands in its resources."""
    named = {"koordinator.sh/" + name.replace("_", "-"): value for name, value in resources.items()}
    return json.dumps({"gpu": [{"minor": 0, "resources": named}]})


def test_up_to_1_5_there_are_only_minor_numbers() -> None:
    text = '{"gpu":[{"minor":3,"resources":{"koordinator.sh/gpu-core":100}},{"minor":1}]}'
    devices = DIALECT.parse(text, "it").devices
    assert [(device.uuid, device.minor, device.cores) for device in devices] == [("", 3, 100), ("", 1, 0)]


@pytest.mark.parametrize("empty", ['""', "null"])
def test_an_empty_id_is_none(empty: str) -> None:
    assert DIALECT.parse(f'{{"gpu":[{{"minor":0,"id":{empty}}}]}}', "it").devices == (Device(minor=0),)


@pytest.mark.parametrize(
    ("quantity", "mib"),
    [
        ("80Gi", 81920),
        (85899345920, 81920),
        ("85899345920", 81920),
        (85899345920.0, 81920),
        ("81559Mi", 81559),
        ("1Ti", 1048576),
        ("80G", 76293),
        ("83886080Ki", 81920),
        ("1k", 0),
        ("0", 0),
    ],
    ids=repr,
)
def test_memory_is_a_quantity(quantity: object, mib: int) -> None:
    assert DIALECT.parse(one(gpu_memory=quantity), "it").devices[0].memory_mib == mib


@pytest.mark.parametrize("quantity", ["100", 100, 100.0], ids=repr)
def test_cores_are_per_cent(quantity: object) -> None:
    assert DIALECT.parse(one(gpu_core=quantity), "it").devices[0].cores == 100


@pytest.mark.parametrize(
    "text",
    [
        '{"gpu":[{"minor":0}],"rdma":[{"minor":-1,"id":7}],"fpga":"?"}',
        '{"gpu":[{"minor":0,"extension":{"vfs":[1]},"resources":null}]}',
        '{"gpu":[{"minor":0,"resources":{"example.com/other":["?"]}}]}',
    ],
    ids=["other types", "other members", "other resources"],
)
def test_what_is_not_about_gpus_is_ignored(text: str) -> None:
    assert DIALECT.parse(text, "it").devices == (Device(minor=0),)


@pytest.mark.parametrize("text", ["{}", '{"gpu":null}', '{"gpu":[]}', '{"rdma":[{"minor":0}]}'])
def test_a_pod_without_gpus_has_none(text: str) -> None:
    assert DIALECT.parse(text, "it").devices == ()


def test_it_is_written_as_koordinator_writes_it() -> None:
    whole = Device(uuid=A, minor=0, memory_mib=81920, cores=100)
    part = Device(minor=1, memory_mib=81559)
    assert DIALECT.format(Allocation(segments=((whole, part, Device(minor=2)),), of_pod=True)) == (
        f'{{"gpu":[{{"minor":0,"id":"{A}","resources":{{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory":"80Gi"}}}},'
        '{"minor":1,"resources":{"koordinator.sh/gpu-memory":"81559Mi"}},{"minor":2,"resources":{}}]}'
    )


OBJECT = 'it: expected an object in JSON such as {"gpu":[{"minor":0}]}, found '
MINOR = "it: gpu[0].minor: expected N of /dev/nvidiaN, such as 0, found "
QUANTITY = 'it: gpu[0].resources.koordinator.sh/gpu-memory: expected a quantity such as "80Gi", found '


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", OBJECT + '"line 1, column 1: Expecting value"'),
        ("GPU-a,NVIDIA,1,1:;", OBJECT + '"line 1, column 1: Expecting value"'),
        ('{"gpu":[{"minor":0}]', OBJECT + '"line 1, column 21: Expecting'),
        ("[]", OBJECT + '"a list"'),
        ("null", OBJECT + '"nothing"'),
        ("[" * 60000, OBJECT + '"nested too deeply"'),
        (
            '{"gpu":' + "[" * 500 + "]" * 500 + "}",
            'it: gpu[0]: expected an object with the minor number of a GPU, found "a',
        ),
        ('{"gpu":[],"gpu":[]}', OBJECT + '"gpu twice"'),
        ('{"gpu":[{"minor":0,"minor":1}]}', OBJECT + '"minor twice"'),
        ('{"gpu":[{"minor":NaN}]}', OBJECT + '"NaN"'),
        ('{"gpu":[{"minor":-Infinity}]}', OBJECT + '"-Infinity"'),
        ('{"gpu":[{"minor":%s}]}' % ("1" * 5000), OBJECT + '"a number with too many digits"'),
        ('{"gpu":{}}', 'it: gpu: expected a list of GPUs, found "an object"'),
        ('{"gpu":false}', 'it: gpu: expected a list of GPUs, found "False"'),
        ('{"gpu":[0]}', 'it: gpu[0]: expected an object with the minor number of a GPU, found "0"'),
        ('{"gpu":[{}]}', MINOR + '"nothing"'),
        ('{"gpu":[{"id":"GPU-a"}]}', MINOR + '"nothing"'),
        ('{"gpu":[{"minor":true}]}', MINOR + '"True"'),
        ('{"gpu":[{"minor":-1}]}', MINOR + '"-1"'),
        ('{"gpu":[{"minor":"0"}]}', MINOR + '"0"'),
        ('{"gpu":[{"minor":0.0}]}', MINOR + '"0.0"'),
        ('{"gpu":[{"minor":1048576}]}', MINOR + '"1048576"'),
        ('{"gpu":[{"minor":0,"id":7}]}', 'it: gpu[0].id: expected a UUID such as "GPU-5c3f...", found "7"'),
        ('{"gpu":[{"minor":0,"id":"GPU a"}]}', 'it: gpu[0].id: expected a UUID such as "GPU-5c3f...", found "GPU a"'),
        (
            '{"gpu":[{"minor":0,"resources":[]}]}',
            'it: gpu[0].resources: expected an object of quantities, found "a list"',
        ),
        ('{"gpu":[{"minor":0},{"minor":0}]}', 'it: gpu: expected each GPU once, found "minor 0 twice"'),
        ('{"gpu":[{"minor":0,"id":"GPU-a"},{"minor":1,"id":"GPU-a"}]}', 'found "GPU-a twice"'),
        (one(gpu_memory="80 Gi"), QUANTITY + '"80 Gi"'),
        (one(gpu_memory="-2"), QUANTITY + '"-2"'),
        (one(gpu_memory=-1), QUANTITY + '"-1"'),
        (one(gpu_memory=True), QUANTITY + '"True"'),
        (one(gpu_memory=0.5), QUANTITY + '"0.5"'),
        (one(gpu_memory=None), QUANTITY + '"nothing"'),
        (one(gpu_memory=["80Gi"]), QUANTITY + '"a list"'),
        (one(gpu_memory="99Ei"), QUANTITY + '"99Ei"'),
        ('{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":1e999}}]}', QUANTITY + '"inf"'),
        (" " * 65537, 'it: expected at most 65536 characters, found "65537 characters"'),
    ],
)
def test_what_is_not_as_koordinator_writes_it_is_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError, match="^" + re.escape(message) if message.startswith("it") else re.escape(message)):
        DIALECT.parse(text, "it")


@pytest.mark.parametrize(
    ("allocation", "message"),
    [
        (Allocation(segments=((Device(uuid=A),),), of_pod=True), "gpu[0].minor: expected N of /dev/nvidiaN"),
        (
            Allocation(segments=((Device(minor=0),),)),
            "expected what annotation scheduling.koordinator.sh/device-allocated",
        ),
        (Allocation(segments=((Device(minor=0, mig="1-0"),),), of_pod=True), "can hold"),
        (Allocation(segments=((Device(minor=0),), (Device(minor=1),)), of_pod=True), "can hold"),
    ],
    ids=["without minor number", "of containers", "an instance", "two segments"],
)
def test_what_the_form_has_no_place_for_is_not_written(allocation: Allocation, message: str) -> None:
    with pytest.raises(FormatError, match="^the allocation.*" + re.escape(message)):
        DIALECT.format(allocation)


uuids = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
memory = st.integers(0, 2**43 - 1) | st.integers(0, 2**33 - 1).map(lambda gib: gib * 1024)


@st.composite
def devices(draw: st.DrawFn) -> tuple[Device, ...]:
    """Any GPUs, each of them once."""
    minors = draw(st.lists(st.integers(0, 2**20 - 1), unique=True, max_size=8))
    named = draw(st.lists(uuids, unique=True, min_size=len(minors), max_size=len(minors)))
    return tuple(
        Device(
            uuid=draw(st.sampled_from(["", uuid])),
            minor=minor,
            memory_mib=draw(memory),
            cores=draw(st.integers(0, 2**63 - 1)),
        )
        for minor, uuid in zip(minors, named, strict=True)
    )


@given(devices())
def test_whatever_it_can_express_is_read_back(every: tuple[Device, ...]) -> None:
    allocation = Allocation(segments=(every,), of_pod=True)
    assert DIALECT.parse(DIALECT.format(allocation), "it") == allocation


members = st.sampled_from(["gpu", "minor", "id", "resources", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([A, "80Gi"])
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(members, inner, max_size=4))
gpus = st.fixed_dictionaries(
    {"minor": st.integers(-1, 9) | values},
    optional={"id": uuids | values, "resources": st.dictionaries(members, values, max_size=2) | values},
)
texts = st.one_of(
    st.text(max_size=40),
    values.map(json.dumps),
    st.lists(gpus, max_size=3).map(lambda entries: json.dumps({"gpu": entries})),
)


@given(texts)
@example('{"gpu":[{"minor":0,"id":"\\ud800"}]}')
@example('{"gpu":[{"minor":0,"\\ud800":0,"\\ud800":0}]}')
@example('{"gpu":' + "[" * 985 + "]" * 985 + "}")
def test_any_text_is_read_or_refused_and_what_was_read_is_written_in_one_way(text: str) -> None:
    try:
        allocation = DIALECT.parse(text, "it")
    except FormatError:
        return
    written = DIALECT.format(allocation)
    assert DIALECT.parse(written, "it") == allocation
    assert DIALECT.format(DIALECT.parse(written, "it")) == written


@pytest.mark.parametrize("depth", range(900, 1100, 7))
def test_depth_alone_breaks_nothing(depth: int) -> None:
    text = '{"gpu":[{"minor":0,"id":' + "[" * depth + "]" * depth + "}]}"
    with pytest.raises(FormatError, match=r'found "(a list|nested too deeply)"'):
        DIALECT.parse(text, "it")

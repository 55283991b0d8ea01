"""A text says by itself what it is."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.topology.machines import MACHINES, h20
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.readers.recognition import read_topology
from webhook.words.errors import FormatError

TEXTS = Path(__file__).parent / "texts"
MATRIX = "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\t0-9\t0\nNIC0\tPIX\t X \n\n"
OLD_REGISTER = "GPU-aa,10,46068,100,NVIDIA-NVIDIA L40S,0,true,0,hami-core:"
NEW_REGISTER = '[{"id":"GPU-aa","count":10,"devmem":46068,"devcore":100,"type":"NVIDIA L40S","health":true}]'


def read(text: str | bytes) -> NodeTopology:
    return read_topology(text, node="node-1", source="file a.txt")


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_node_topology_in_json_keeps_its_node(name: str, indent: int | None) -> None:
    assert read(format_topology(MACHINES[name], indent=indent)) == MACHINES[name]


def test_a_byte_order_mark_and_leading_lines_do_not_matter() -> None:
    assert read(b"\xef\xbb\xbf\r\n" + format_topology(h20()).encode()) == h20()


@pytest.mark.parametrize("name", sorted(path.name for path in TEXTS.glob("*.txt") if path.stem != "h20-list"))
def test_what_nvidia_smi_printed_is_recognised(name: str) -> None:
    found = read((TEXTS / name).read_bytes())
    assert (found.node, found.source) == ("node-1", "nvidia-smi")


def test_a_prompt_in_brackets_does_not_look_like_json() -> None:
    text = "[root@gpu-1 ~]# nvidia-smi topo -m\n" + (TEXTS / "l40s.txt").read_text()
    assert read(text).source == "nvidia-smi"


@pytest.mark.parametrize("text", [OLD_REGISTER, NEW_REGISTER, f"  {NEW_REGISTER}\n", f"{OLD_REGISTER}\n"])
def test_the_annotation_of_hami_is_recognised(text: str) -> None:
    found = read(text)
    assert (found.node, found.source) == ("node-1", "hami")
    assert [(gpu.uuid, gpu.name) for gpu in found.gpus] == [("GPU-aa", "NVIDIA L40S")]


def test_no_gpu_in_the_annotation_of_hami_is_recognised() -> None:
    assert read("[]").problem == "HAMi registered no GPU."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'HAMi\'s annotation hami.io/node-nvidia-register, found "nothing"$'),
        (" \n\t", 'found "nothing"$'),
        (
            "hello",
            'file a.txt: expected a NodeTopology in JSON, the output of nvidia-smi topo -m, .* found "hello"',
        ),
        ("apiVersion: v1\nkind: ConfigMap\n", "expected a NodeTopology in JSON, the output of nvidia-smi topo -m,"),
        ("\x1b]0;title\x07", r"found \"\\x1b\]0;title\\x07\""),
        ('["GPU-aa"]', "expected a NodeTopology in JSON, the output of nvidia-smi"),
        (
            '{"kind":"ConfigMap","apiVersion":"v1"}',
            "expected NodeTopology of gpu.topology/v1, found .ConfigMap of v1.$",
        ),
        ('{"kind":"NodeTopology","apiVersion":"gpu.topology/v2"}', "Webhook and agent should be of the same release$"),
        ("GPU 0: NVIDIA H20 (UUID: GPU-aa)\n", "file a.txt: expected one matrix with a header GPU0 ... CPU Affinity"),
        (OLD_REGISTER[:-1], "annotation hami.io/node-nvidia-register: expected uuid,count,.*cut off"),
        ('[{"id":"GPU-aa"', "annotation hami.io/node-nvidia-register: expected a list of GPUs in JSON"),
        (b"\xff\xfeG\x00P\x00U\x000\x00", "file a.txt: expected a text in UTF-8, .* PowerShell writes UTF-16"),
        (b" " * (1024 * 1024 + 1), "file a.txt: expected at most 1048576 bytes"),
    ],
)
def test_another_text_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(text)


def test_the_name_of_a_node_is_checked_as_in_a_document() -> None:
    with pytest.raises(
        FormatError, match=r'a\.txt: node: expected a text of printable characters, at most 4096 of them, found "a\\nb"'
    ):
        read_topology(OLD_REGISTER, node="a\nb", source="file a.txt")


@given(st.text(max_size=12), st.text(max_size=12), st.sampled_from(["", "NIC Legend:\n\n  NIC0: mlx5_0\n"]))
def test_what_is_read_can_be_written_and_read_again(name: str, node: str, legend: str) -> None:
    text = MATRIX + legend.replace("mlx5_0", name) + f"GPU 0: {name} (UUID: GPU-aa)\n"
    for one in (text, OLD_REGISTER.replace("L40S", name)):
        with suppress(FormatError):
            found = read_topology(one, node=node, source="t")
            assert read(format_topology(found)) == found


@given(st.text() | st.binary())
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    with suppress(FormatError):
        read(text)

"""What HAMi's device plugin writes on a node becomes a topology."""

import json
from contextlib import suppress
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hardware.topology.machines import GEN3, GEN4
from webhook.hardware.topology.model import Gpu, LostGpu, MigMode, NodeTopology, NvLink
from webhook.hardware.topology.readers.hami import read_hami
from webhook.hardware.topology.readers.hami_register import RegisteredGpu, parse_register
from webhook.words.errors import FormatError

H100 = "NVIDIA H100 80GB HBM3"
A, B, C = (f"GPU-{letter * 8}-e98b-a25b-5b0d-cf5c855d1448" for letter in "abc")

OLD = (
    f"{A},10,81559,100,NVIDIA-NVIDIA H100 80GB HBM3,0,true,0,hami-core:"
    f"{B},10,81559,100,NVIDIA-NVIDIA H100 80GB HBM3,1,true,1,hami-core:"
)
NEW = json.dumps(
    [
        {"id": B, "index": 1, "count": 10, "devmem": 81559, "devcore": 100, "type": H100, "numa": 1, "health": True},
        {"id": A, "count": 10, "devmem": 81559, "devcore": 100, "type": H100, "mode": "hami-core", "health": True},
    ]
)

NO_SCORES = (
    "HAMi published no pair scores, so links are unknown: run the agent, or set gpuSchedulerPolicy to topology-aware in"
    " the values of HAMi's chart ({})."
)
CARDS = NO_SCORES.format("2.7 or later")
OTHER_SCORES = "HAMi's pair scores are not those of the GPUs that it registered, so links are unknown."
NO_SWITCHES = "HAMi before 2.10 does not see NVSwitches, so links are unknown: update HAMi."


def read(register: str, score: str | None = None) -> NodeTopology:
    return read_hami(register, score, node="node-1", source="Node node-1")


def registered(*gpus: dict[str, Any]) -> str:
    """GPU-0, GPU-1 and so on, all of one product; each dictionary changes one of them."""
    usual = {"count": 10, "devmem": 81559, "devcore": 100, "type": H100, "mode": "hami-core", "health": True}
    return json.dumps([{"id": f"GPU-{index}", "index": index} | usual | gpu for index, gpu in enumerate(gpus)])


def scores(rows: dict[tuple[int, int], int]) -> str:
    """The scores of pairs, in both directions."""
    table: dict[str, dict[str, int]] = {}
    for (one, other), score in rows.items():
        table.setdefault(f"GPU-{one}", {})[f"GPU-{other}"] = score
        table.setdefault(f"GPU-{other}", {})[f"GPU-{one}"] = score
    return json.dumps([{"uuid": uuid, "score": row} for uuid, row in table.items()])


def to(target: str, links: int) -> NvLink:
    return NvLink(target=target, count=links, active=links)


# --- The register annotation. ---


def test_a_single_gpu_lacks_nothing() -> None:
    assert read(f"{A},10,16384,100,NVIDIA-Tesla T4,0,true,0,hami-core:") == NodeTopology(
        node="node-1",
        source="hami",
        gpus=(
            Gpu(
                index=0,
                uuid=A,
                name="Tesla T4",
                compute_capability="7.5",
                memory_mib=16384,
                numa_node=0,
                pcie=GEN3,
            ),
        ),
    )


def test_what_go_leaves_out_is_zero_or_false() -> None:
    found = read(f'[{{"id":"{A}","type":"NVIDIA L40S"}}]')
    assert found.gpus == ()
    assert found.lost == (LostGpu(index=0, problem="HAMi reports it unhealthy", uuid=A),)


def test_an_unhealthy_gpu_is_lost() -> None:
    found = read(OLD.replace("1,true,1", "1,false,1"))
    assert [gpu.uuid for gpu in found.gpus] == [A]
    assert found.lost == (LostGpu(index=1, problem="HAMi reports it unhealthy", uuid=B),)
    assert found.problem == ""


def test_mig_mode_is_read() -> None:
    found = read(OLD.replace("1,true,1,hami-core", "1,true,1,mig"))
    assert [gpu.mig_mode for gpu in found.gpus] == [MigMode.UNSUPPORTED, MigMode.ENABLED]


def test_the_short_form_numbers_gpus_as_they_stand_and_says_so() -> None:
    found = read(f"{B},10,49140,100,NVIDIA-NVIDIA L40S,0,true:{A},10,49140,100,NVIDIA-NVIDIA L40S,-1,true:")
    assert [(gpu.index, gpu.uuid, gpu.numa_node) for gpu in found.gpus] == [(0, B, 0), (1, A, None)]
    assert {(gpu.name, gpu.pcie) for gpu in found.gpus} == {("NVIDIA L40S", GEN4)}
    assert found.problem == (
        "HAMi registered GPUs without indices; they are numbered in the order of its annotation. " + CARDS
    )


def test_members_of_other_versions_do_not_matter() -> None:
    extra = '"devicepairscore":{},"migProfiles":[{"name":"1g.10gb"}],"custominfo":null'
    found = read(f'[{{"id":"{A}","count":10,"devmem":23028,"type":"NVIDIA A10","health":true,{extra}}}]')
    assert [(gpu.uuid, gpu.compute_capability) for gpu in found.gpus] == [(A, "8.6")]


@pytest.mark.parametrize("register", ["", "[]", " [] \n"])
def test_no_gpu_is_a_problem(register: str) -> None:
    assert read(register) == NodeTopology(node="node-1", source="hami", problem="HAMi registered no GPU.")


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (OLD[:-1], "expected uuid,count,memory,cores,type,numa,health,index,mode: for each GPU, .*cut off"),
        (OLD.replace(",0,hami-core", "", 1).replace(":", "", 1), "GPU 1: expected 7 or 9 fields, the UUID first"),
        (OLD.replace(",hami-core", "", 1), "GPU 1: expected 7 or 9 fields"),
        (OLD + ":", 'GPU 3: expected 7 or 9 fields, the UUID first, found ""'),
        (OLD.replace(A, ""), "GPU 1: expected 7 or 9 fields, the UUID first"),
        (OLD.replace("H100", "H\x1b100", 1), "GPU 1: expected 7 or 9 fields"),
        (OLD.replace(",10,", ",ten,", 1), 'GPU 1: expected a number for how many pods may share it, found "ten"'),
        (OLD.replace("81559", "80Gi", 1), 'GPU 1: expected a number for MiB of memory, found "80Gi"'),
        (OLD.replace(",100,", ",,", 1), 'GPU 1: expected a number for cores in percent, found ""'),
        (OLD.replace("1,true,1", "x,true,1"), 'GPU 2: expected a number for a NUMA node, found "x"'),
        (OLD.replace("1,true,1", "1,yes,1"), 'GPU 2: expected true or false for its health, found "yes"'),
        (OLD.replace("1,true,1", "1,true,-1"), 'GPU 2: expected a number for an index, found "-1"'),
        (OLD.replace("1,true,1", "1,true,0"), 'expected each index once, found "0 2 times"'),
        (OLD.replace(B, A), f'expected each UUID once, found "{A} 2 times"'),
        (OLD * 40, 'expected at most 64 GPUs, found "80"'),
        (NEW[:-1], "expected a list of GPUs in JSON, .*cut off"),
        ("[" * 100_000, "expected a list of GPUs in JSON"),
        ("[1]", r'\[0\]: expected an object, found "1"'),
        ("[{}]", r'\[0\].id: expected a text of printable characters, at most 4096 of them, found "nothing"'),
        (NEW.replace('"index": 1', '"index": -1'), r"\[0\].index: expected a whole number from 0"),
        (NEW.replace('"index": 1, ', ""), 'expected each index once, found "0 2 times"'),
        (NEW.replace('"numa": 1', '"numa": "1"'), r"\[0\].numa: expected a whole number from 0"),
        (NEW.replace("81559", "8.5"), r"\[0\].devmem: expected a whole number from 0"),
        (NEW.replace("10", "null", 1).replace("100", '"x"', 1), r"\[0\].devcore: expected a whole number from 0"),
        (NEW.replace("true", '"true"', 1), r"\[0\].health: expected true or false"),
        (NEW.replace("H100", "H\\n100", 1), r"\[0\].type: expected a text of printable characters"),
        ("x" * (1024 * 1024 + 1), "expected at most 1048576 characters"),
    ],
)
def test_a_register_that_is_not_in_order_is_refused(register: str, message: str) -> None:
    with pytest.raises(FormatError, match="^Node node-1: annotation hami.io/node-nvidia-register.*" + message):
        read(register)


# --- The pair scores. ---


def test_hami_2_10_sees_switches() -> None:
    found = read(registered({}, {}, {}), scores({(0, 1): 1850, (0, 2): 1820, (1, 2): 1810}))
    assert {gpu.nvlinks for gpu in found.gpus} == {(to("nvswitch", 18),)}
    assert [gpu.distance for gpu in found.gpus] == [
        (("GPU1", "PIX"), ("GPU2", "NODE")),
        (("GPU0", "PIX"), ("GPU2", "SYS")),
        (("GPU0", "NODE"), ("GPU1", "SYS")),
    ]
    assert found.problem == ""


@pytest.mark.parametrize("name", [H100, "NVIDIA A100-SXM4-80GB", "NVIDIA H20", "NVIDIA H200", "NVIDIA B200"])
def test_hami_before_2_10_does_not_see_switches(name: str) -> None:
    found = read(
        registered({"type": name}, {"type": name}, {"type": name}), scores({(0, 1): 50, (0, 2): 20, (1, 2): 10})
    )
    assert found.problem == NO_SWITCHES
    assert {gpu.nvlinks for gpu in found.gpus} == {()}
    assert found.gpus[2].distance == (("GPU0", "NODE"), ("GPU1", "SYS"))


def test_gpus_in_mig_mode_without_links_are_nothing_strange() -> None:
    assert read(registered({"mode": "mig"}, {"mode": "mig"}), scores({(0, 1): 20})).problem == ""


def test_the_direct_links_of_a_board_with_four_gpus_are_seen_by_all_versions() -> None:
    board = {"type": "NVIDIA A100-SXM4-40GB"}
    found = read(registered(*[board] * 4), scores(dict.fromkeys(combinations(range(4), 2), 410)))
    assert found.gpus[0].nvlinks == (to("GPU1", 4), to("GPU2", 4), to("GPU3", 4))
    assert found.problem == ""


def test_a_pair_that_hami_could_not_rate_is_unknown() -> None:
    rows = {(0, 1): 0, (0, 2): 1820, (1, 2): 1820, (0, 3): 1820, (1, 3): 1820, (2, 3): 1820}
    found = read(registered({}, {}, {}, {}), scores(rows))
    assert found.problem == "HAMi found no path, or links in one direction only, between GPU0 and GPU1."
    assert found.gpus[0].distance == (("GPU2", "NODE"), ("GPU3", "NODE"))


def test_many_such_pairs_are_counted() -> None:
    found = read(registered({}, {}, {}), scores({(0, 1): 0, (0, 2): 0, (1, 2): 0}))
    assert found.problem.endswith("between GPU0 and GPU1, GPU0 and GPU2, GPU1 and GPU2.")
    found = read(registered(*[{}] * 4), scores(dict.fromkeys(combinations(range(4), 2), 0)))
    assert found.problem.endswith("between GPU0 and GPU1, GPU0 and GPU2, GPU0 and GPU3 and 3 other pairs.")


def test_links_whose_path_hami_does_not_know_are_links() -> None:
    card = {"type": "NVIDIA H100 NVL"}
    found = read(registered(card, card), scores({(0, 1): 1200}))
    assert [(gpu.nvlinks, gpu.distance) for gpu in found.gpus] == [((to("GPU1", 12),), ()), ((to("GPU0", 12),), ())]


@pytest.mark.parametrize(
    "score",
    [
        pytest.param("[]", id="none"),
        pytest.param(scores({(0, 7): 1820}), id="of another GPU"),
        pytest.param(scores({(0, 1): 1820, (0, 2): 1820}), id="a pair is missing"),
    ],
)
def test_scores_of_other_gpus_are_not_used(score: str) -> None:
    found = read(registered({}, {}, {}), score)
    assert found.problem == OTHER_SCORES
    assert {gpu.nvlinks for gpu in found.gpus} == {()}


def test_scores_of_an_unhealthy_gpu_are_left_out() -> None:
    found = read(registered({}, {"health": False}, {}), scores({(0, 1): 1820, (0, 2): 1820, (1, 2): 1820}))
    assert [gpu.distance for gpu in found.gpus] == [(("GPU2", "NODE"),), (("GPU0", "NODE"),)]
    assert found.problem == ""


@pytest.mark.parametrize("score", [None, "", '[{"uuid":"GPU-0","score":{}}]', '[{"uuid":"GPU-0"}]'])
def test_a_single_gpu_has_no_pair_to_rate(score: str | None) -> None:
    assert read(registered({}), score).problem == ""


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("[{", "expected a list of scores in JSON"),
        ("{}", "expected a list of at most 64 GPUs"),
        (json.dumps([{}] * 65), "expected a list of at most 64 GPUs"),
        ("[1]", r"\[0\]: expected an object"),
        ('[{"score":{}}]', r"\[0\].uuid: expected a text of printable characters"),
        ('[{"uuid":"GPU-0"},{"uuid":"GPU-0"}]', r'\[1\].uuid: expected each GPU once, found "GPU-0 twice"'),
        ('[{"uuid":"GPU-0","score":[]}]', r"\[0\].score: expected an object with the scores to other GPUs"),
        ('[{"uuid":"GPU-0","score":{"GPU-0":10}}]', r"\[0\].score: expected an object with the scores to other GPUs"),
        ('[{"uuid":"GPU-0","score":{"\\u001b":10}}]', r"\[0\].score: expected an object with .*\\x1b"),
        (scores({(0, 1): -10}), r"\[0\].score.GPU-1: expected 100 for each NVLink and 10 to 60 for the PCIe path"),
        (scores({(0, 1): 15}), "expected 100 for each NVLink"),
        (scores({(0, 1): 1870}), "expected 100 for each NVLink"),
        (scores({(0, 1): 7310}), "expected 100 for each NVLink"),
        (scores({(0, 1): 10}).replace("10", "10.0"), "expected 100 for each NVLink"),
        (scores({(0, 1): 10}).replace("10", "true"), "expected 100 for each NVLink"),
        (
            scores({(0, 1): 10}).replace("10", "20", 1),
            'both directions between GPU-0 and GPU-1, found "20 and 10"',
        ),
        (scores({(0, 1): 1820, (0, 2): 1820, (1, 2): 20}), 'GPU1 to GPU2: expected NV18, .*, found "no NVLink"'),
        (" " * (1024 * 1024 + 1), "expected at most 1048576 characters"),
    ],
)
def test_scores_that_are_not_in_order_are_refused(score: str, message: str) -> None:
    with pytest.raises(FormatError, match="^Node node-1: annotation hami.io/node-nvidia-score.*" + message):
        read(registered({}, {}, {}), score)


# --- Any annotation that HAMi may write, and any damage to one. ---

names = st.sampled_from(["NVIDIA H20", "NVIDIA A100 80GB PCIe", "NVIDIA GeForce RTX 4090", "NVIDIA T400 4GB", "X 1"])
hardware = st.lists(
    st.builds(
        RegisteredGpu,
        uuid=st.uuids().map(lambda uuid: f"GPU-{uuid}"),
        index=st.integers(0, 63),
        memory_mib=st.integers(0, 2**20),
        name=names,
        numa_node=st.integers(0, 15),
        healthy=st.booleans(),
        mode=st.sampled_from(["hami-core", "mig", "mps"]),
        most_pods=st.integers(0, 100),
        cores=st.integers(0, 300),
    ),
    unique_by=(lambda gpu: gpu.index, lambda gpu: gpu.uuid),
    max_size=8,
)


def as_colons(gpus: list[RegisteredGpu]) -> str:
    """As HAMi 2.7 writes it."""
    fields = (
        (
            gpu.uuid,
            gpu.most_pods,
            gpu.memory_mib,
            gpu.cores,
            f"NVIDIA-{gpu.name}",
            gpu.numa_node,
            str(gpu.healthy).lower(),
            gpu.index,
            gpu.mode,
        )
        for gpu in gpus
    )
    return "".join(",".join(map(str, gpu)) + ":" for gpu in fields)


def as_json(gpus: list[RegisteredGpu]) -> str:
    """As HAMi 2.10 writes it: without members that are 0, false or empty."""
    members = (
        {
            "id": gpu.uuid,
            "index": gpu.index,
            "count": gpu.most_pods,
            "devmem": gpu.memory_mib,
            "devcore": gpu.cores,
            "type": gpu.name if gpu.name.startswith("NVIDIA") else f"NVIDIA-{gpu.name}",
            "numa": gpu.numa_node,
            "mode": gpu.mode,
            "health": gpu.healthy,
        }
        for gpu in gpus
    )
    return json.dumps([{name: value for name, value in gpu.items() if value} for gpu in members], separators=(",", ":"))


@given(hardware)
def test_the_old_form_is_read_as_hami_wrote_it(gpus: list[RegisteredGpu]) -> None:
    assert parse_register(as_colons(gpus), source="a") == gpus


@given(hardware)
def test_the_new_form_is_read_as_hami_wrote_it(gpus: list[RegisteredGpu]) -> None:
    assert parse_register(as_json(gpus), source="a") == gpus


@given(hardware)
def test_every_registered_gpu_is_there_or_lost(gpus: list[RegisteredGpu]) -> None:
    found = read(as_json(gpus))
    there = {(gpu.index, gpu.uuid) for gpu in found.gpus}
    lost = {(gpu.index, gpu.uuid) for gpu in found.lost}
    assert there == {(gpu.index, gpu.uuid) for gpu in gpus if gpu.healthy}
    assert lost == {(gpu.index, gpu.uuid) for gpu in gpus if not gpu.healthy}


@given(st.integers(2, 6), st.data())
def test_direct_links_and_levels_are_read_back_from_scores(count: int, data: st.DataObject) -> None:
    pairs = list(combinations(range(count), 2))
    levels = {pair: data.draw(st.sampled_from([10, 20, 30, 40, 50])) for pair in pairs}
    links = {pair: data.draw(st.integers(0, 3)) for pair in pairs}
    found = read(
        registered(*[{"type": "NVIDIA H100 NVL"}] * count),
        scores({pair: levels[pair] + 100 * links[pair] for pair in pairs}),
    )
    words = {10: "SYS", 20: "NODE", 30: "PHB", 40: "PXB", 50: "PIX"}
    for one, other in pairs:
        assert found.gpus[one].links_to(f"GPU{other}") == found.gpus[other].links_to(f"GPU{one}") == links[one, other]
        assert dict(found.gpus[one].distance)[f"GPU{other}"] == words[levels[one, other]]


@given(st.sampled_from([OLD, NEW]), st.data())
def test_a_damaged_annotation_is_read_or_refused_but_never_breaks_the_reader(
    register: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(register)))
    end = data.draw(st.integers(start, len(register)))
    with suppress(FormatError):
        read(register[:start] + data.draw(st.text(max_size=4)) + register[end:])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["uuid", "score", "GPU-0", "GPU-1", ""]), inner)
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_is_read_or_refused(value: object) -> None:
    with suppress(FormatError):
        read(registered({}, {}), json.dumps(value))
    with suppress(FormatError):
        read(json.dumps([value]))

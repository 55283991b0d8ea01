"""What holds for every set of GPUs of every machine, in whatever order the scheduler picked them."""

from dataclasses import dataclass, replace
from itertools import permutations

from hypothesis import event, given
from hypothesis import strategies as st

from tests.hardware.topology.machines import MACHINES
from tests.programs.remap.pods import H20, NO_DRIVER, POD_PEERS, allocated
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.decisions.resolve.resolve import resolve
from webhook.hardware.topology.document import format_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.remap.inputs import Inputs, read_inputs
from webhook.programs.remap.report import format_report, one_line
from webhook.programs.remap.verdict import ExitCode
from webhook.programs.remap.verify import MachineState, verify
from webhook.words.errors import FormatError

DOCUMENTS = {name: format_topology(topology) for name, topology in MACHINES.items()}


@dataclass(frozen=True)
class Pod:
    """A pod of two containers with GPUs of one machine."""

    topology: NodeTopology
    profile: str
    picked: tuple[tuple[str, ...], tuple[str, ...]]
    """UUIDs in the order of the scheduler."""

    def told(self, first: str, second: str, uuids: str) -> Inputs:
        one, other = self.picked
        return read_inputs(
            {
                "GPU_TOPOLOGY_PROFILE": self.profile,
                "GPU_TOPOLOGY_REQUIRE_NVLINK": "false",
                "GPU_TOPOLOGY_CONTAINERS": f"one:{len(one)}:0,other:{len(other)}:1",
                "GPU_TOPOLOGY_NODE_NAME": self.topology.node,
                "GPU_TOPOLOGY_NODE_TOPOLOGY": DOCUMENTS[self.topology.node],
                "GPU_TOPOLOGY_ALLOCATION": allocated(one, other),
                "GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_0": first,
                "GPU_TOPOLOGY_CUDA_VISIBLE_DEVICES_1": second,
                "GPU_TOPOLOGY_VISIBLE_UUIDS": uuids,
            }
        )

    def truth(self) -> tuple[str, str, str]:
        """The values that bind writes."""
        inputs = self.told("0", "0", "x")
        found = resolve(inputs.demand, inputs.allocation, KnownNode(self.topology, origin=Origin.AGENT))
        first, second = (container.cuda_visible_devices for container in found.containers)
        return first, second, found.visible_uuids

    def code(self, *values: str) -> ExitCode:
        return verify(self.told(*values), MachineState(topology=self.topology)).code


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    topology = MACHINES[draw(st.sampled_from(sorted(MACHINES)))]
    order = draw(st.permutations([gpu.uuid for gpu in topology.gpus]))
    first = draw(st.integers(1, len(order) - 1))
    second = draw(st.integers(1, len(order) - first))
    picked = tuple(order[:first]), tuple(order[first : first + second])
    return Pod(topology, draw(st.sampled_from(["pod-peers", "node-peers"])), picked)


@given(pods())
def test_what_bind_resolves_is_true(pod: Pod) -> None:
    assert pod.code(*pod.truth()) is ExitCode.TRUE


@given(pods(), st.data())
def test_no_other_list_of_numbers_is_true(pod: Pod, data: st.DataObject) -> None:
    first, second, uuids = pod.truth()
    other = data.draw(st.lists(st.integers(0, 9), max_size=9).map(lambda numbers: ",".join(map(str, numbers))))
    expected = ExitCode.TRUE if other == first else ExitCode.OTHER_GPUS if other else ExitCode.NOT_BOUND
    assert pod.code(other, second, uuids) is expected


@given(pods(), st.data())
def test_no_other_order_of_the_right_numbers_is_true(pod: Pod, data: st.DataObject) -> None:
    first, second, uuids = pod.truth()
    shuffled = ",".join(data.draw(st.permutations(second.split(","))))
    assert pod.code(first, shuffled, uuids) is (ExitCode.TRUE if shuffled == second else ExitCode.OTHER_GPUS)


@given(pods(), st.text(max_size=12))
def test_no_other_text_is_true(pod: Pod, text: str) -> None:
    first, second, uuids = pod.truth()
    unbound = text in ("", "-1")
    expected = ExitCode.TRUE if text == first else ExitCode.NOT_BOUND if unbound else ExitCode.OTHER_GPUS
    assert pod.code(text, second, uuids) is expected


@given(pods(), st.data())
def test_no_other_list_of_uuids_is_true(pod: Pod, data: st.DataObject) -> None:
    first, second, uuids = pod.truth()
    every = [gpu.uuid for gpu in pod.topology.gpus]
    other = ",".join(data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=8)))
    expected = ExitCode.OTHER_GPUS if pod.profile == "pod-peers" and other != uuids else ExitCode.TRUE
    assert pod.code(first, second, other) is expected


@given(pods(), st.data())
def test_in_exclusive_no_other_set_of_uuids_is_true(pod: Pod, data: st.DataObject) -> None:
    alone = replace(pod, profile="exclusive")
    every = [gpu.uuid for gpu in pod.topology.gpus]
    shown = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=8))
    seen = replace(pod.topology, gpus=tuple(gpu for gpu in pod.topology.gpus if gpu.uuid in shown))
    own = {uuid for uuids in pod.picked for uuid in uuids}
    for topology in (seen, pod.topology):
        code = verify(alone.told("", "", ",".join(shown)), MachineState(topology=topology)).code
        assert code is (ExitCode.TRUE if set(shown) == own else ExitCode.OTHER_GPUS)


@given(pods(), st.data())
def test_a_gpu_that_is_swapped_for_another_is_noticed_and_both_are_named(pod: Pod, data: st.DataObject) -> None:
    values = pod.truth()
    one, other = pod.picked
    free = [gpu.uuid for gpu in pod.topology.gpus if gpu.uuid not in one + other]
    if not free:
        return
    place, new = data.draw(st.integers(0, len(one) - 1)), data.draw(st.sampled_from(free))
    swapped = Pod(pod.topology, pod.profile, ((*one[:place], new, *one[place + 1 :]), other))
    verdict = verify(swapped.told(*values), MachineState(topology=pod.topology))
    assert verdict.code is ExitCode.OTHER_GPUS
    assert one[place] in verdict.reason
    assert new in verdict.reason


def test_of_all_orders_of_four_gpus_one_is_true() -> None:
    h20 = MACHINES["h20-node-1"]
    picked = tuple(h20.gpus[index].uuid for index in (6, 1, 4, 3))
    pod = Pod(h20, "node-peers", (picked, (h20.gpus[0].uuid,)))
    orders = [",".join(map(str, order)) for order in permutations((1, 3, 4, 6))]
    assert [order for order in orders if pod.code(order, "0", "") is ExitCode.TRUE] == ["1,3,4,6"]


_HABITS = {
    "PROFILE": ["exclusive", "pod-peers", "node-peers"],
    "CONTAINERS": ["prefill:2:0,decode:2:1", "a:1:,b:1:0:left-out", "a:2:1:init,b:2:0", "a:4:0"],
    "CUDA_VISIBLE_DEVICES_0": ["0,1", "-1", "", "1,0", "7,7", "0x1"],
    "CUDA_VISIBLE_DEVICES_1": ["2,3", "4,6", "-1", ""],
    "VISIBLE_UUIDS": ["none", "", ",", POD_PEERS["GPU_TOPOLOGY_VISIBLE_UUIDS"]],
    "ALLOCATION": ["", ";", POD_PEERS["GPU_TOPOLOGY_ALLOCATION"], allocated((H20[1],), (H20[1],)), allocated(H20[:4])],
    "NODE_TOPOLOGY": ["", "{}", *DOCUMENTS.values()],
    "NODE_NAME": ["h20-node-1", "\x1b[2J"],
    "MIN_BANDWIDTH": ["100", "1e9", "0"],
    "ENVIRONMENT": ["file", "annotations"],
    "ALLOCATED_BY": ["hami", "volcano"],
}


_HABITUAL = st.fixed_dictionaries({name: st.sampled_from(words) for name, words in _HABITS.items()})
_ODD = st.dictionaries(st.sampled_from(sorted(_HABITS)), st.text(max_size=8), max_size=2)


@given(_HABITUAL, _ODD)
def test_whatever_a_pod_was_told_there_is_a_verdict_in_one_line(told: dict[str, str], odd: dict[str, str]) -> None:
    variables = {f"GPU_TOPOLOGY_{name}": value for name, value in (told | odd).items()}
    try:
        inputs = read_inputs({"GPU_TOPOLOGY_REQUIRE_NVLINK": "true", **variables})
    except FormatError as error:
        event(error.source)
        return
    for seen in (MACHINES["h20-node-1"], NO_DRIVER, MACHINES["l40s"]):
        verdict = verify(inputs, MachineState(topology=seen))
        event(verdict.code.name)
        report = format_report(inputs, verdict)
        assert report.splitlines()[0] == one_line(verdict.reason)
        assert report.isascii()

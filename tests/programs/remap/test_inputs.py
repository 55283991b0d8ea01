"""What the variables of the remap container say, and how a bad one is named."""

import pytest

from tests.programs.remap.pods import EXCLUSIVE, H20, NODE_PEERS, POD_PEERS, told
from webhook.decisions.resolve.demand import GpuContainer, NcclTables, Requirements, format_tables
from webhook.programs.remap.inputs import Environment, read_inputs
from webhook.words.choices import OnViolation, Policy, Profile
from webhook.words.errors import FormatError


def test_variables_become_a_pod() -> None:
    inputs = told(POD_PEERS, REQUIRE_NVLINK="true", MIN_BANDWIDTH="100", ON_VIOLATION="deny")
    assert inputs.profile is Profile.POD_PEERS
    assert inputs.node == "h20-node-1"
    assert inputs.demand.containers == (
        GpuContainer(name="prefill", count=2, visible_key="gpu.topology/cuda-visible-devices.0"),
        GpuContainer(name="decode", count=2, visible_key="gpu.topology/cuda-visible-devices.1"),
    )
    assert inputs.demand.requirements == Requirements(nvlink=True, min_bandwidth=100.0)
    assert told(POD_PEERS, POLICY="single-numa").demand.requirements == Requirements(policy=Policy.SINGLE_NUMA)
    assert inputs.demand.on_violation is OnViolation.DENY
    assert [device.uuid for device in inputs.allocation.devices] == [H20[1], H20[0], H20[4], H20[6]]
    assert inputs.visible_devices == {
        "gpu.topology/cuda-visible-devices.0": "0,1",
        "gpu.topology/cuda-visible-devices.1": "2,3",
    }
    assert inputs.visible_uuids == f"{H20[0]},{H20[1]},{H20[4]},{H20[6]}"
    assert inputs.published is not None
    assert inputs.published.node == "h20-node-1"


def test_a_privileged_container_is_named_so() -> None:
    told_of = told(POD_PEERS, CONTAINERS="prefill:2:0:privileged,decode:2:1:init+left-out+privileged")
    prefill, decode = told_of.demand.containers
    assert (prefill.sees_node, prefill.selected, prefill.is_init) == (True, True, False)
    assert (decode.sees_node, decode.selected, decode.is_init) == (True, False, True)
    assert not any(one.sees_node for one in told(POD_PEERS).demand.containers)


def test_what_most_pods_do_not_have_is_absent() -> None:
    inputs = told(EXCLUSIVE)
    assert inputs.demand.requirements == Requirements()
    assert inputs.demand.nccl == NcclTables()
    assert not inputs.demand.host_network
    assert inputs.demand.on_violation is OnViolation.WARN
    assert inputs.environment is Environment.ANNOTATIONS
    assert inputs.scheduler == "HAMi"


def test_kinds_of_containers_are_read() -> None:
    inputs = told(EXCLUSIVE, CONTAINERS="a:1::init,b:1::left-out,c:2::init+left-out,d:16:")
    found = [
        (container.name, container.count, container.is_init, container.selected, container.visible_key)
        for container in inputs.demand.containers
    ]
    assert found == [
        ("a", 1, True, True, ""),
        ("b", 1, False, False, ""),
        ("c", 2, True, False, ""),
        ("d", 16, False, True, ""),
    ]


@pytest.mark.parametrize(
    ("scheduler", "name"), [("hami", "HAMi"), ("volcano", "Volcano"), ("koordinator", "Koordinator")]
)
def test_schedulers_are_called_as_people_call_them(scheduler: str, name: str) -> None:
    assert told(EXCLUSIVE, ALLOCATED_BY=scheduler, ALLOCATION="").scheduler == name


def test_tables_are_read_as_admission_writes_them() -> None:
    tables = NcclTables(
        variables={
            "NCCL_ALGO": {"nvswitch": "NVLS", "nvlink": "Ring", "pcie": "Tree"},
            "NCCL_P2P_LEVEL": {"pcie": "PHB"},
        }
    )
    assert told(EXCLUSIVE, NCCL=format_tables(tables)).demand.nccl == tables


def test_members_of_tables_that_a_newer_webhook_adds_are_ignored() -> None:
    assert told(EXCLUSIVE, NCCL='{"newer": 1}').demand.nccl == NcclTables()


@pytest.mark.parametrize("text", ["", "{}"])
def test_a_topology_that_bind_did_not_write_is_none(text: str) -> None:
    assert told(EXCLUSIVE, NODE_TOPOLOGY=text).published is None


def test_with_values_from_the_file_the_annotations_may_be_absent() -> None:
    variables = {name: value for name, value in POD_PEERS.items() if "CUDA_VISIBLE" not in name and "UUIDS" not in name}
    inputs = read_inputs(variables | {"GPU_TOPOLOGY_ENVIRONMENT": "file"})
    assert inputs.environment is Environment.FILE
    assert set(inputs.visible_devices.values()) == {""}


ADVICE = "Admission sets it: is the image of this container of the same release as the webhook\\?"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PROFILE", "observe", "PROFILE: expected exclusive or pod-peers or node-peers, found \"observe\"."),
        ("PROFILE", "", "PROFILE: expected exclusive or pod-peers or node-peers, found \"\"."),
        ("REQUIRE_NVLINK", "yes", "REQUIRE_NVLINK: expected true or false, found \"yes\"."),
        ("ON_VIOLATION", "kill", "ON_VIOLATION: expected warn or deny, found \"kill\"."),
        ("ENVIRONMENT", "env", "ENVIRONMENT: expected annotations or file, found \"env\"."),
        ("ALLOCATED_BY", "slurm", "ALLOCATED_BY: expected hami or volcano or koordinator or claim, found \"slurm\"."),
        ("NODE_NAME", "", "NODE_NAME: expected not to be empty, found \"\"."),
        ("MIN_BANDWIDTH", "fast", "MIN_BANDWIDTH: expected a number of GB/s such as \"100\", found \"fast\"."),
        ("MIN_BANDWIDTH", "nan", "MIN_BANDWIDTH: expected a number of GB/s such as \"100\", found \"nan\"."),
        ("MIN_BANDWIDTH", "-1", "MIN_BANDWIDTH: expected a number of GB/s such as \"100\", found \"-1\"."),
        ("MIN_BANDWIDTH", "0", "MIN_BANDWIDTH: expected a number of GB/s such as \"100\", found \"0\"."),
        ("MIN_BANDWIDTH", "1e999", "MIN_BANDWIDTH: expected a number of GB/s such as \"100\", found \"1e999\"."),
        ("MIN_BANDWIDTH", "1e", "MIN_BANDWIDTH: expected a number of GB/s such as \"100\", found \"1e\"."),
        ("CONTAINERS", "", "CONTAINERS: expected not to be empty, found \"\"."),
        ("CONTAINERS", "prefill", "found \"prefill\"."),
        ("CONTAINERS", "a:0:", "expected 1 GPU or more of each container, found \"a:0\"."),
        ("CONTAINERS", "a:1:0:main", "found \"a:1:0:main\"."),
        ("CONTAINERS", "a\nb:1:0", "found \"a\\nb:1:0\"."),
        ("CONTAINERS", "a:1:,", "found \"\"."),
        ("CONTAINERS", "a:1:,a:2:", "expected each container once, found \"a twice\"."),
        ("CONTAINERS", "a:1:0,b:2:0", "found \"gpu.topology/cuda-visible-devices.0 twice\"."),
        ("NCCL", "[]", "NCCL: expected an object in JSON, found \"[]\"."),
        ("NCCL", "{", "NCCL: expected an object in JSON, found \"{\"."),
        ("NCCL", "[" * 9999, "NCCL: expected an object in JSON"),
        ("NCCL", '{"variables":[]}', "variables: an object, found \"[]\"."),
        ("NCCL", '{"variables":{"A B":{}}}', "variables: names of environment variables, found \"A B\"."),
        ("NCCL", '{"variables":{"A":{"nvlink":1}}}', "variables.A: texts for nvswitch, nvlink, pcie, found"),
        ("NCCL", '{"variables":{"A":{"other":"1"}}}', "variables.A: texts for nvswitch, nvlink, pcie, found"),
        ("HOST_NETWORK", "yes", "HOST_NETWORK: expected true or false, found \"yes\"."),
    ],
)  # fmt: skip
def test_a_bad_variable_is_named(name: str, value: str, said: str) -> None:
    with pytest.raises(FormatError, match=f"^variable GPU_TOPOLOGY_{name}: ") as error:
        told(EXCLUSIVE, **{name: value})
    assert said in str(error.value)


@pytest.mark.parametrize(
    "name",
    [
        "PROFILE",
        "CONTAINERS",
        "NODE_NAME",
        "ALLOCATION",
        "NODE_TOPOLOGY",
        "CUDA_VISIBLE_DEVICES_1",
        "VISIBLE_UUIDS",
    ],
)
def test_a_variable_that_is_missing_is_named(name: str) -> None:
    variables = {key: value for key, value in POD_PEERS.items() if key != f"GPU_TOPOLOGY_{name}"}
    with pytest.raises(FormatError, match=f'^variable GPU_TOPOLOGY_{name}: expected .*, found "nothing". {ADVICE}$'):
        read_inputs(variables)


@pytest.mark.parametrize("text", ["GPU-1,NVIDIA,many,100:;", "GPU-1,NVIDIA,1,\n100:;", "GPU 1,NVIDIA,1,100:;"])
def test_an_allocation_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(FormatError, match=r"^variable GPU_TOPOLOGY_ALLOCATION"):
        told(NODE_PEERS, ALLOCATION=text)


@pytest.mark.parametrize("text", ["{", "[]", '{"apiVersion":"gpu.topology/v2","kind":"NodeTopology"}'])
def test_a_topology_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(FormatError, match=r"^variable GPU_TOPOLOGY_NODE_TOPOLOGY"):
        told(NODE_PEERS, NODE_TOPOLOGY=text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("100", 100.0),
        ("187.5", 187.5),
        ("370.8000001", 370.8000001),
        ("1234567890123456", 1234567890123456.0),
        ("0.1000000000000000055511151231257827", 0.1),
        ("1e+22", 1e22),
        ("5e-324", 5e-324),
        ("1.7976931348623157e+308", 1.7976931348623157e308),
    ],
)
def test_a_bandwidth_is_the_number_that_admission_meant(text: str, number: float) -> None:
    assert told(EXCLUSIVE, MIN_BANDWIDTH=text).demand.requirements.min_bandwidth == number

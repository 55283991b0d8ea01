"""The env file, read back by readers of both formats that are written from the words of KEP-3721."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.programs.remap.pods import EXCLUSIVE, NODE_PEERS, POD_PEERS, judged, told
from webhook.decisions.configuration import admit_policy, parse_config
from webhook.programs.remap.environment_file import EnvFormat, environment_values, format_environment
from webhook.words.errors import ConfigError, FormatError

EXPECTED = Path(__file__).parent / "expected"
TABLES = '{"variables":{"NCCL_ALGO":{"nvlink":"Ring","nvswitch":"NVLS","pcie":"Tree"}}}'


def read_quoted(text: str) -> dict[str, str]:
    """As Kubernetes 1.35 does: every value in single quotes, nothing in them means anything."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)='([^']*)'", line)
        assert match, line
        found[match[1]] = match[2]
    return found


def read_raw(text: str) -> dict[str, str]:
    """As Kubernetes 1.34 does: a value runs to the end of its line or a ``#``, without the blanks around it."""
    found = {}
    for line in text.splitlines():
        name, sign, value = line.partition("#")[0].partition("=")
        assert sign, line
        found[name.strip()] = value.strip()
    return found


READERS: Mapping[EnvFormat, Callable[[str], dict[str, str]]] = {EnvFormat.QUOTED: read_quoted, EnvFormat.RAW: read_raw}

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)


@pytest.mark.parametrize("env_format", EnvFormat)
@given(values=st.dictionaries(names, st.text(max_size=30)))
def test_a_file_that_can_be_written_is_read_as_it_was_meant(env_format: EnvFormat, values: dict[str, str]) -> None:
    try:
        text = format_environment(values.items(), env_format)
    except FormatError:
        return
    assert READERS[env_format](text) == values


@pytest.mark.parametrize("env_format", EnvFormat)
@given(values=st.dictionaries(names, st.from_regex(r"[A-Za-z0-9_,:./+\-^]{1,40}", fullmatch=True)))
def test_what_nccl_and_cuda_understand_can_be_written(env_format: EnvFormat, values: dict[str, str]) -> None:
    assert READERS[env_format](format_environment(values.items(), env_format)) == values


@pytest.mark.parametrize("env_format", EnvFormat)
@pytest.mark.parametrize("value", ["", "a\nb", "a\0b", "a\rb", "\x1b[31m", "\udcff", "a\u2028b", "x" * 32769])
def test_a_value_that_no_kubelet_reads_is_refused(env_format: EnvFormat, value: str) -> None:
    with pytest.raises(FormatError, match=r"^env file for Kubernetes 1\.3[45]: A: expected 1 to 32768 printable"):
        format_environment([("A", value)], env_format)


def test_the_format_of_1_35_has_no_single_quotes_in_values() -> None:
    with pytest.raises(FormatError, match=r"A: expected a value without single quotes, found \"it's\""):
        format_environment([("A", "it's")], EnvFormat.QUOTED)
    assert format_environment([("A", 'say "#1"')], EnvFormat.QUOTED) == "A='say \"#1\"'\n"


@pytest.mark.parametrize("value", ["a#b", " a", "a "])
def test_the_format_of_1_34_would_cut_values(value: str) -> None:
    with pytest.raises(FormatError, match="A: expected a value without # and without blanks around it"):
        format_environment([("A", value)], EnvFormat.RAW)


@pytest.mark.parametrize("name", ["", "A=B", "A B", "1A", "A" * 129])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(FormatError, match="expected letters, digits and _ in the name"):
        format_environment([(name, "1")], EnvFormat.QUOTED)


@pytest.mark.parametrize(("env_format", "file"), [(EnvFormat.QUOTED, "env-1.35"), (EnvFormat.RAW, "env-1.34")])
def test_two_containers_of_one_pod_find_their_values(env_format: EnvFormat, file: str) -> None:
    verdict = judged(POD_PEERS, NCCL=TABLES)
    values = environment_values(told(POD_PEERS, NCCL=TABLES), verdict.resolution)
    assert format_environment(values, env_format) == (EXPECTED / file).read_text()


@given(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,60}", fullmatch=True), st.text(max_size=40))
def test_what_the_configuration_takes_arrives_in_the_file(name: str, value: str) -> None:
    tables = {link_class: {name: f"{value}{link_class}"} for link_class in ("nvswitch", "nvlink", "pcie")}
    try:
        rules = admit_policy(parse_config({"nccl": tables}), version="0.1.0")
    except ConfigError:
        event("refused")
        return
    inputs = told(EXCLUSIVE, ALLOCATION="", NCCL=rules.remap_nccl)
    text = format_environment(environment_values(inputs, None), EnvFormat.QUOTED)
    assert read_quoted(text)[name] == f"{value}pcie"


def test_a_node_peer_sees_all_gpus_and_needs_no_list_of_them() -> None:
    values = environment_values(told(NODE_PEERS), judged(NODE_PEERS).resolution)
    assert dict(values) == {
        "CUDA_VISIBLE_DEVICES_0": "0,1",
        "CUDA_VISIBLE_DEVICES_1": "4,6",
        "NCCL_P2P_LEVEL": "auto",
        "NCCL_NVLS_ENABLE": "0",
    }


def test_a_node_peer_in_the_network_of_its_host_keeps_nvlink_sharp() -> None:
    inputs = told(NODE_PEERS, HOST_NETWORK="true")
    assert dict(environment_values(inputs, None))["NCCL_NVLS_ENABLE"] == "2"
    assert dict(environment_values(told(NODE_PEERS), None))["NCCL_NVLS_ENABLE"] == "0"


def test_an_exclusive_pod_has_the_list_of_the_device_plugin() -> None:
    values = environment_values(told(EXCLUSIVE), judged(EXCLUSIVE).resolution)
    assert dict(values) == {"NCCL_P2P_LEVEL": "auto", "NCCL_NVLS_ENABLE": "2"}


def test_where_nothing_is_known_the_values_of_admission_stand() -> None:
    values = environment_values(told(EXCLUSIVE, NCCL=TABLES, ALLOCATION=""), None)
    assert dict(values) == {"NCCL_P2P_LEVEL": "auto", "NCCL_NVLS_ENABLE": "2", "NCCL_ALGO": "Tree"}

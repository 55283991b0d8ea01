"""Names of a node's objects fit, whatever the node is called."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.words import names
from webhook.words.node_names import config_map_name, fitted, node_label

PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = re.compile(rf"{PART}(\.{PART})*")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


@pytest.mark.parametrize("node", ["n", "gpu-node-1", "ip-10-0-13-7.eu-central-1.compute.internal"])
def test_usual_names_stand_as_they_are(node: str) -> None:
    assert config_map_name(node) == f"gpu-topology-{node}"
    assert node_label(node) == node


def test_a_name_that_just_fits_is_not_cut() -> None:
    assert config_map_name("n" * 240) == "gpu-topology-" + "n" * 240
    assert node_label("n" * 63) == "n" * 63


def test_a_longer_name_is_cut_and_ends_with_a_digest() -> None:
    # printf 'n%.0s' {1..64} | sha256sum
    assert node_label("n" * 64) == "n" * 52 + "-ce068a195a"
    assert len(config_map_name("n" * 241)) == 253


def test_long_names_with_the_same_beginning_differ() -> None:
    names = ["n" * 250 + end for end in ("a", "b", "aa")]
    assert len({config_map_name(name) for name in names}) == 3
    assert len({node_label(name) for name in names}) == 3


def test_a_cut_name_has_no_dash_after_a_dot() -> None:
    node = "n" * 51 + ".rest-of-a-long-name"
    assert re.fullmatch(r"n{51}-[0-9a-f]{10}", node_label(node))


NODES = st.from_regex(SUBDOMAIN, fullmatch=True).filter(lambda name: len(name) <= 253)


@given(node=st.one_of(NODES, st.from_regex(r"[a-z0-9]{1,60}(\.[a-z0-9-]{0,10}[a-z0-9]{1,50}){3,4}", fullmatch=True)))
def test_every_name_of_a_node_gives_valid_names(node: str) -> None:
    if not SUBDOMAIN.fullmatch(node):
        return
    assert len(config_map_name(node)) <= 253
    assert SUBDOMAIN.fullmatch(config_map_name(node))
    assert len(node_label(node)) <= 63
    assert LABEL_VALUE.fullmatch(node_label(node))


def test_other_limits_hold_too() -> None:
    assert fitted("abc", 3) == "abc"
    assert len(fitted("a" * 300, 128)) == 128


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        (names.NODE, "gpu.topology/node"),
        (names.NVLINK, "gpu.topology/nvlink"),
        (names.CORDONED, "gpu.topology/cordoned"),
        (names.AGENT_CONTROLLER, "gpu.topology/agent"),
        (names.AGENT_FIELD_MANAGER, "gpu-topology-agent"),
        (names.TOPOLOGY_KEY, "topology.json"),
        (names.NCCL_TOPOLOGY_KEY, "nccl-topo.xml"),
        (names.HAMI_DEVICE_CORDON, "hami.io/device-cordon"),
    ],
)
def test_names_are_spelled_as_the_contract_says(name: str, spelling: str) -> None:
    assert name == spelling

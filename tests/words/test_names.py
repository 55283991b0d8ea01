"""Each key is spelled once: no other module than names.py writes the prefix."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from webhook.words import names

ROOT = Path(__file__).parents[2]
NAMES = ROOT / "webhook" / "words" / "names.py"
MODULES = sorted(path for package in ("webhook", "certs") for path in (ROOT / package).rglob("*.py") if path != NAMES)


def strings(tree: ast.Module) -> Iterator[ast.Constant]:
    """String constants that are no docstrings: statements that are nothing but a string count as such."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node


@pytest.mark.slow
def test_the_prefix_is_spelled_only_in_names(subtests: pytest.Subtests) -> None:
    for path in (path for path in MODULES if path.parent.name != "catalogue"):  # prose: tests/words/catalogue
        with subtests.test(str(path.relative_to(ROOT))):
            found = [node.lineno for node in strings(ast.parse(path.read_text())) if "gpu.topology/" in str(node.value)]
            assert found == []


def test_in_names_the_prefix_is_spelled_once() -> None:
    found = [node for node in strings(ast.parse(NAMES.read_text())) if "gpu.topology/" in str(node.value)]
    assert len(found) == 1


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        (names.INJECTION, "gpu.topology/injection"),
        (names.INJECTED, "gpu.topology/injected"),
        (names.PROFILE, "gpu.topology/profile"),
        (names.VISIBLE_UUIDS, "gpu.topology/visible-uuids"),
        (names.CUDA_VISIBLE_DEVICES_PREFIX, "gpu.topology/cuda-visible-devices."),
        (names.NCCL_P2P_LEVEL, "gpu.topology/nccl-p2p-level"),
        (names.NCCL_NVLS, "gpu.topology/nccl-nvls"),
        (names.NODE_TOPOLOGY, "gpu.topology/node-topology"),
        (names.ALLOW_NODE_GPUS, "gpu.topology/allow-node-gpus"),
        (names.FILES_PATH, "/run/gpu-topology"),
        (names.TOPOLOGY_FILE, "/run/gpu-topology/nccl-topo.xml"),
    ],
)
def test_names_are_spelled_as_the_contract_says(name: str, spelling: str) -> None:
    assert name == spelling

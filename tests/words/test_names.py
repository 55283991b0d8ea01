"""Each key is spelled once: no other module than names.py writes the prefix."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = ROOT / "webhook" / "words" / "names.py"
MODULES = sorted(path for package in ("webhook", "certs") for path in (ROOT / package).rglob("*.py") if path != NAMES)


def strings(tree: ast.Module) -> Iterator[ast.Constant]:
    """String constants that are no docstrings: statements that are nothing but a string count as such."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node


def test_the_prefix_is_spelled_only_in_names() -> None:
    for path in (path for path in MODULES if path.parent.name != "catalogue"):  # prose: tests/words/catalogue
        text = path.read_text()
        if "gpu.topology/" in text:
            found = [node.lineno for node in strings(ast.parse(text)) if "gpu.topology/" in str(node.value)]
            assert found == [], str(path.relative_to(ROOT))


def test_in_names_the_prefix_is_spelled_once() -> None:
    found = [node for node in strings(ast.parse(NAMES.read_text())) if "gpu.topology/" in str(node.value)]
    assert len(found) == 1

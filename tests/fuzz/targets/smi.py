"""What ``nvidia-smi topo -m`` and ``nvidia-smi -L`` print, however it was pasted."""

from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.laws import check_read
from webhook.hardware.topology.readers.recognition import read_topology

FIXED_CALLS, CALLS_EACH = 10_000, 20.0
_TEXTS = Path(__file__).parents[2] / "hardware" / "topology" / "texts"


def seeds() -> Iterator[bytes]:
    """The texts of the tests."""
    for path in sorted(_TEXTS.glob("*.txt")):
        yield path.read_bytes()


def target(data: bytes) -> None:
    """Fails where a reader lets out another error than its own, or what it has read breaks a law."""
    check_read(data, lambda: read_topology(data, node="node-1", source="the input"), fixed=FIXED_CALLS, each=CALLS_EACH)

"""A matrix that is wider than the terminal."""

import pytest

from tests.hardware.topology.machines import MACHINES
from webhook.hardware.topology.readers.smi import read_smi
from webhook.insight.drawings.terminal import picture

SIXTEEN = 16


def sixteen_gpus() -> str:
    """What nvidia-smi prints of a machine with 16 GPUs and 4 NICs."""
    labels = [*(f"GPU{index}" for index in range(SIXTEEN)), *(f"NIC{index}" for index in range(4))]
    lines = ["\t".join(("", *labels, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"))]
    for label in labels:
        words = [" X " if label == other else "NV6" if {label[0], other[0]} == {"G"} else "NODE" for other in labels]
        end = ("0-47,96-143", "0", "", "N/A") if label.startswith("GPU") else ("", "", "", "")
        lines.append("\t".join((label, *words, *end)))
    return "\n".join(lines) + "\n"


def lines(name: str, width: int | None, *, bandwidth: bool = False) -> list[str]:
    """The matrix of a machine, without what stands above and below it."""
    topology = MACHINES[name] if name in MACHINES else read_smi(sixteen_gpus(), node=name, source="test")
    text = picture(topology, bandwidth=bandwidth, width=width).plain
    return text[text.index("   GPU0") :].partition("\n\nNV#")[0].splitlines()


@pytest.mark.parametrize("bandwidth", [False, True])
@pytest.mark.parametrize("width", [40, 80, 100])
@pytest.mark.parametrize("name", ["h20-node-1", "dgx1-v100", "sixteen"])
def test_no_line_is_longer_than_the_terminal_is_wide(name: str, width: int, *, bandwidth: bool) -> None:
    assert max(map(len, lines(name, width, bandwidth=bandwidth))) <= width


def test_the_parts_together_have_the_words_of_the_whole() -> None:
    whole = {line.split()[0]: line.split()[1:] for line in lines("sixteen", None)[1:]}
    parts: dict[str, list[str]] = {}
    for line in lines("sixteen", 80):
        if line and not line.startswith("  "):
            label, *words = line.split()
            parts.setdefault(label, []).extend(words)
    assert parts == whole

"""Facts that follow from the name of a GPU if no source has them, such as its compute capability and PCIe link."""

import re
from dataclasses import dataclass

from webhook.hardware.topology.model import Pcie

ARM = "arm64"


@dataclass(frozen=True, kw_only=True, slots=True)
class Product:
    """The common facts of all GPUs of one name. The defaults mean that nothing is known."""

    compute_capability: str = ""
    """Compute capability such as ``9.0``."""
    pcie: Pcie | None = None
    """The highest generation and width of its link; None if the data sheets differ or do not say, and for laptops."""
    cpu_arch: str = ""
    """``arm64`` for superchips, which come with their CPU."""
    nvlink_board: bool = False
    """Whether it is sold only on boards whose GPUs have NVLinks, through NVSwitches unless there are just four GPUs."""


_GEN3, _GEN4, _GEN5 = (Pcie(generation=generation, width=16) for generation in (3, 4, 5))
_GEN4_X8 = Pcie(generation=4, width=8)

# Compute capability and PCIe link by the first words of the name. Capabilities: developer.nvidia.com/cuda-gpus, and
# developer.nvidia.com/cuda-legacy-gpus for those before Turing. Links: NVIDIA's data sheets.
_PRODUCTS: dict[str, tuple[str, Pcie | None]] = (
    dict.fromkeys(["P100"], ("6.0", _GEN3))
    | dict.fromkeys(["P4", "P40", "GTX 1080"], ("6.1", _GEN3))
    | dict.fromkeys(["V100", "V100S", "GV100", "TITAN V"], ("7.0", _GEN3))
    | dict.fromkeys(["T4", "RTX 5000", "RTX 6000", "RTX 8000", "TITAN RTX", "RTX 2080"], ("7.5", _GEN3))
    | dict.fromkeys(["A30", "A100", "A800"], ("8.0", _GEN4))
    | dict.fromkeys(["A10", "A10G", "A10M", "A40"], ("8.6", _GEN4))
    | dict.fromkeys(["RTX A4000", "RTX A4500", "RTX A5000", "RTX A5500", "RTX A6000", "A6000"], ("8.6", _GEN4))
    | dict.fromkeys(["RTX 3080", "RTX 3090"], ("8.6", _GEN4))
    | {"A2": ("8.6", _GEN4_X8), "A16": ("8.6", None)}
    | dict.fromkeys(["L4", "L20", "L40", "L40S", "L40G", "RTX 4080", "RTX 4090"], ("8.9", _GEN4))
    | dict.fromkeys(["RTX 4000 ADA", "RTX 4500 ADA", "RTX 5000 ADA", "RTX 5880 ADA", "RTX 6000 ADA"], ("8.9", _GEN4))
    | {"L2": ("8.9", None)}
    | dict.fromkeys(["H20", "H100", "H200", "H800"], ("9.0", _GEN5))
    | {"GH200": ("9.0", None)}
    | {"B200": ("10.0", _GEN5), "GB200": ("10.0", None)}
    | dict.fromkeys(["B300", "GB300"], ("10.3", None))
    | dict.fromkeys(["RTX PRO 5000 BLACKWELL", "RTX PRO 6000 BLACKWELL", "RTX 5080", "RTX 5090"], ("12.0", _GEN5))
    | dict.fromkeys(["RTX PRO 2000 BLACKWELL", "RTX PRO 4000 BLACKWELL", "RTX PRO 4500 BLACKWELL"], ("12.0", None))
    | {"GB10": ("12.1", None)}
)
_LONGEST = max(len(name.split()) for name in _PRODUCTS)
_BRANDS = {"NVIDIA", "TESLA", "QUADRO", "GEFORCE"}
_SUPERCHIPS = {"GH200", "GB200", "GB300", "GB10"}
# Names of modules: the cards of the same chips are called "PCIe" or "NVL", and "A100 80GB PCIe" or "V100-PCIE-32GB".
_MODULES = {"H20", "H100", "H200", "H800", "B200", "B300", "GB200", "GB300"}
_CARDS = {"PCIE", "NVL"}
_SWITCHED_SOCKETS = {"SXM3", "SXM4"}


def product(name: str) -> Product:
    """Returns the facts that follow from the name of a GPU; the defaults for an unknown name.

    Args:
        name: The name of NVML, ``Tesla V100-SXM2-32GB`` or ``NVIDIA A100 80GB PCIe``. It may have dashes for blanks,
            and a second NVIDIA in front (HAMi up to 2.7).
    """
    words = [word for word in re.split(r"[ -]+", name.upper()) if word]
    while words and words[0] in _BRANDS:
        words.pop(0)
    for length in range(min(_LONGEST, len(words)), 0, -1):
        known = _PRODUCTS.get(" ".join(words[:length]))
        if known:
            return _product(words, *known)
    return Product()


def _product(words: list[str], capability: str, pcie: Pcie | None) -> Product:
    chip, rest = words[0], set(words[1:])
    return Product(
        compute_capability=capability,
        pcie=None if "LAPTOP" in rest else pcie,
        cpu_arch=ARM if chip in _SUPERCHIPS else "",
        nvlink_board=bool(rest & _SWITCHED_SOCKETS) or (chip in _MODULES and not rest & _CARDS),
    )

"""The NVLinks of a matrix, confirmed or corrected by the state that ``nvidia-smi nvlink`` prints of each link.

The matrix counts the links of each pair, and the state tells of each link whether it is up, how fast it is, and whether
it supports P2P, but not where it leads. Both are of one moment at best, so a link counts only if no output is against
it. What differs is said in the problem of the topology.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from webhook.hardware.topology.connections import nvlink_rate
from webhook.hardware.topology.model import Gpu, MigMode
from webhook.hardware.topology.readers.smi_nvlink import CAPABILITIES, STATUS, WHOLE, PrintedLinks
from webhook.words.errors import FormatError
from webhook.words.listing import counted, listed, ranges

# GB/s of a link as nvidia-smi prints it, and the least compute capability with such links. From published outputs of
# RTX 3090, A100, V100, H100 and GB200.
_CAPABILITY_OF_RATE = {14.062: "8.6", 25.0: "8.0", 25.781: "7.0", 26.562: "9.0", 53.125: "10.0"}
_MOST_OVERHEAD = 1.5
"""The printed rate of a link divided by the payload that NCCL reckons with is less. It is 1.17 to 1.33."""
_NAMED = 8
"""GPUs that one sentence names."""


def capability_by_rate(printed: PrintedLinks | None) -> str:
    """Returns the compute capability that the rate of a GPU's links shows; empty if it shows none."""
    rates = {rate for rate in (printed.rates or () if printed else ()) if rate}
    return _CAPABILITY_OF_RATE.get(rates.pop(), "") if len(rates) == 1 else ""


def links_of_chips(counts: Mapping[tuple[int, int], int], printed: Mapping[int, PrintedLinks]) -> dict[int, int]:
    """Returns the number of links of each GPU's chip, up or not, where it is printed.

    Args:
        counts: Links of each pair of GPUs in the matrix.
        printed: The printed links of GPUs, by index.

    Raises:
        FormatError: the matrix has more links between two GPUs, so that the output is cut off or of another machine.
    """
    chips = {index: len(found.rates) for index, found in printed.items() if found.rates}
    for pair, count in counts.items():
        for index in pair:
            if count > chips.get(index, count):
                raise FormatError(
                    f"{printed[index].where}: links of GPU{index}",
                    expected=f"at least {count}, as in the matrix",
                    found=chips[index],
                    fix=WHOLE,
                )
    return chips


def with_states(gpus: Sequence[Gpu], printed: Mapping[int, PrintedLinks]) -> tuple[Gpu, ...]:
    """Returns the GPUs with those links down that are up in the matrix and not in the printed state.

    If they may lead to several GPUs it is not known which are down, and all stay up.
    """
    return tuple(
        replace(gpu, nvlinks=(replace(gpu.nvlinks[0], active=up),))
        if (up := _fewer(gpu, printed)) is not None and len(gpu.nvlinks) == 1
        else gpu
        for gpu in gpus
    )


def differences(gpus: Sequence[Gpu], printed: Mapping[int, PrintedLinks]) -> Iterator[str]:
    """Yields sentences about what matrix and printed links say differently, each about all GPUs that it is true of.

    Args:
        gpus: The GPUs with the links of the matrix alone.
        printed: The printed links of GPUs, by index.
    """
    yield from _down(gpus, printed)
    yield from _without_p2p(gpus, printed)
    if len(more := [gpu.label for gpu in gpus if gpu.switch_links and _has_more(gpu, printed)]) > 1:
        yield f"{STATUS} has more NVLinks of {_some(more)} up than the matrix, whose numbers count."
    if lost := [gpu.label for gpu in gpus if not gpu.active_links and _has_more(gpu, printed)]:
        yield f"{STATUS} has NVLinks of {_some(lost)} up that lead to no GPU of the matrix."
    yield from _other_rates(gpus, printed)


def _some(words: Iterable[str]) -> str:
    return listed(words, most=_NAMED)


def _fewer(gpu: Gpu, printed: Mapping[int, PrintedLinks]) -> int | None:
    """Returns the number of links up by the printed state, if it is less than that of the matrix."""
    up = printed[gpu.index].up if gpu.index in printed else None
    return up if up is not None and up < gpu.active_links and gpu.mig_mode is not MigMode.ENABLED else None


def _has_more(gpu: Gpu, printed: Mapping[int, PrintedLinks]) -> bool:
    found = printed.get(gpu.index)
    return bool(found and found.rates and gpu.active_links < (found.up or 0) and gpu.mig_mode is not MigMode.ENABLED)


def _down(gpus: Sequence[Gpu], printed: Mapping[int, PrintedLinks]) -> Iterator[str]:
    known, unknown = list[str](), list[str]()
    for gpu in gpus:
        if (up := _fewer(gpu, printed)) is not None:
            (known if len(gpu.nvlinks) == 1 else unknown).append(f"{up} of {gpu.active_links} of {gpu.label}")
    said = "Fewer NVLinks carry data by nvidia-smi nvlink than by the matrix"
    if known:
        yield f"{said}, and these count: {_some(known)}."
    if unknown:
        yield f"{said}, but where those lead is not known, so the matrix counts: {_some(unknown)}."


def _without_p2p(gpus: Sequence[Gpu], printed: Mapping[int, PrintedLinks]) -> Iterator[str]:
    missing = [
        f"{counted(len(numbers), 'link')} of {gpu.label} ({ranges(numbers)})"
        for gpu in gpus
        if _fewer(gpu, printed) is not None and (numbers := printed[gpu.index].without_p2p)
    ]
    if missing:
        yield f"{CAPABILITIES} has no P2P for {_some(missing)}; such a link carries nothing between GPUs."


def _other_rates(gpus: Sequence[Gpu], printed: Mapping[int, PrintedLinks]) -> Iterator[str]:
    odd = []
    for gpu in gpus:
        found, payload = printed.get(gpu.index), nvlink_rate(gpu)
        rate = min((rate for rate in (found.rates or () if found else ()) if not _fits(rate, payload)), default=0.0)
        if rate:
            odd.append(f"{rate:g} GB/s of {gpu.label} for {payload:g} GB/s")
    if odd:
        yield f"{STATUS} has links with a rate that does not fit the payload that counts for each: {_some(odd)}."


def _fits(rate: float, payload: float) -> bool:
    return not rate or not payload or payload <= rate < _MOST_OVERHEAD * payload

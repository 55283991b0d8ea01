"""The links of each GPU, derived from the numbers of NVLinks between the GPUs of each pair.

Some sources count links only by pair and do not say whether a switch is between: ``NV18`` may be 18 links to the other
GPU, or 18 links to switches that both GPUs reach. Three facts decide:

- A direct link serves only the GPU at its other end, so to all its peers together a GPU cannot have more direct links
  than its chip has. Links to switches serve every peer. So counts whose sum exceeds the links of the chip are links to
  switches.
- Some products are sold only on boards. Where such a board has no switches, each of its four GPUs has at most a third
  of its links to one peer. So more links to one peer are links to switches.
- All GPUs of such a node reach the switches, and a pair can use as many links as the GPU with fewer links has.

All other counts are taken for direct links. That is wrong in a virtual machine with just two GPUs of a board with
switches whose product is not known, but the bandwidth between them is the same in both cases.
"""

from collections.abc import Collection, Mapping

from webhook.hardware.topology.consistency import MAX_LINKS
from webhook.hardware.topology.model import NVSWITCH, NvLink
from webhook.words.errors import FormatError

# The most NVLinks of a GPU, from this sm on: NCCL src/graph/xml.cc, ncclTopoGetXmlFromGpu.
_MOST_LINKS = ((90, 18), (80, 12), (70, 6), (60, 4))
_MOST_OF_ALL = 18
_OF_FOUR = 3
"""The peers of a GPU on a board of four without switches."""


def links_by_gpu(
    counts: Mapping[tuple[int, int], int],
    sm: Mapping[int, int],
    *,
    source: str,
    chips: Mapping[int, int] | None = None,
    on_boards: Collection[int] = (),
) -> dict[int, tuple[NvLink, ...]]:
    """Returns the links of each GPU. All of them are up, because counts by pair leave out links that are down.

    Args:
        counts: Links of each pair of GPUs, the lesser index first; 0 for a pair without links, no entry for an unknown
            pair.
        sm: Compute capability of every GPU as NCCL writes it, 90 for 9.0; 0 if unknown.
        source: The name of the source of the counts in messages.
        chips: The number of links of a GPU's chip, up or not, for GPUs of which it is known.
        on_boards: GPUs of products that are sold only on boards with NVLinks.

    Raises:
        FormatError: neither direct links nor links to switches explain the counts.
    """
    peers: dict[int, dict[int, int]] = {gpu: {} for gpu in sm}
    for (one, other), count in sorted(counts.items()):
        if count > MAX_LINKS:
            raise FormatError(f"{source}: GPU{one} to GPU{other}", expected=f"at most {MAX_LINKS} NVLinks", found=count)
        if count:
            peers[one][other] = peers[other][one] = count
    most = {gpu: _most_links(number) for gpu, number in sm.items()} | dict(chips or {})
    reach = {gpu: max(links.values(), default=0) for gpu, links in peers.items()}
    is_of_board = any(_OF_FOUR * reach[gpu] > most[gpu] for gpu in on_boards) and all(
        count == min(reach[one], reach[other]) for (one, other), count in counts.items()
    )
    if not is_of_board and all(sum(links.values()) <= most[gpu] for gpu, links in peers.items()):
        return {gpu: tuple(_link(f"GPU{peer}", links[peer]) for peer in sorted(links)) for gpu, links in peers.items()}
    _check_switched(counts, reach, source)
    return {gpu: (_link(NVSWITCH, links),) if links else () for gpu, links in reach.items()}


def _most_links(sm: int) -> int:
    return next((links for least, links in _MOST_LINKS if sm >= least), _MOST_OF_ALL)


def _link(target: str, links: int) -> NvLink:
    return NvLink(target=target, count=links, active=links)


def _check_switched(counts: Mapping[tuple[int, int], int], reach: Mapping[int, int], source: str) -> None:
    for (one, other), count in counts.items():
        expected = min(reach[one], reach[other])
        if count != expected:
            raise FormatError(
                f"{source}: GPU{one} to GPU{other}",
                expected=f"NV{expected}, because both have so many links to NVSwitches",
                found=f"NV{count}" if count else "no NVLink",
                fix="NVSwitches that are split into partitions cannot be expressed; read each partition by itself",
            )

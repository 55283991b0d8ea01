"""The node annotation ``hami.io/node-nvidia-score``, in which HAMi rates the connection of each pair of GPUs.

A score is 100 for each NVLink plus the level of the PCIe path: HAMi pkg/device/nvidia/calculate_score.go. The score 0
has neither. It means that HAMi found no connection, or different links in the two directions.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.hardware.topology.consistency import MAX_GPUS, MAX_LINKS
from webhook.hardware.topology.fields import Fields
from webhook.hardware.topology.pcie import PciePath
from webhook.hardware.topology.readers.limit import check_length
from webhook.words.errors import FormatError

_LINK = 100
_LEVELS: dict[int, PciePath | None] = {
    0: None,
    10: PciePath.SYS,
    20: PciePath.NODE,
    30: PciePath.PHB,
    40: PciePath.PXB,
    50: PciePath.PIX,
    60: PciePath.PIX,  # two GPUs on one board, behind its switch
}


@dataclass(frozen=True, slots=True)
class Score:
    """HAMi's score of the connection of two GPUs."""

    value: int

    @property
    def links(self) -> int:
        """Number of NVLinks that both GPUs have, direct or to switches."""
        return self.value // _LINK

    @property
    def path(self) -> PciePath | None:
        """The PCIe path between the GPUs; None if HAMi does not know it."""
        return _LEVELS[self.value % _LINK]

    @property
    def rated(self) -> bool:
        """Whether the score has information about the pair; a score of 0 has none."""
        return bool(self.value)


def parse_scores(text: str, *, source: str) -> dict[str, dict[str, Score]]:
    """Reads the score of each pair, by both UUIDs.

    Raises:
        FormatError: the text is no list of scores, a GPU is listed twice, a pair has different scores in the two
            directions, or a number is not a score of HAMi.
    """
    check_length(text, source)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(source, expected="a list of scores in JSON", found=str(error)) from None
    if not isinstance(value, list) or len(value) > MAX_GPUS:
        raise FormatError(source, expected=f"a list of at most {MAX_GPUS} GPUs", found=value)
    scores: dict[str, dict[str, Score]] = {}
    for position, entry in enumerate(value):
        gpu = Fields(source, f"[{position}]", entry)
        uuid = gpu.text("uuid", None)
        if uuid in scores:
            gpu.fail("uuid", "each GPU once", f"{uuid} twice")
        scores[uuid] = _read_row(uuid, entry.get("score"), f"{source}: [{position}].score")
    _check_symmetry(scores, source)
    return scores


def _read_row(uuid: str, value: Any, where: str) -> dict[str, Score]:
    """Reads the scores of one GPU. Go's ``omitempty`` leaves out an empty row."""
    row = {} if value is None else value
    if not isinstance(row, Mapping) or len(row) > MAX_GPUS or uuid in row or not all(map(str.isprintable, row)):
        raise FormatError(where, expected="an object with the scores to other GPUs", found=value)
    return {other: _read_score(score, f"{where}.{other}") for other, score in row.items()}


def _read_score(value: Any, where: str) -> Score:
    if isinstance(value, int) and not isinstance(value, bool):
        links, level = divmod(value, _LINK)
        if 0 <= links <= MAX_LINKS and level in _LEVELS:
            return Score(value)
    expected = "100 for each NVLink and 10 to 60 for the PCIe path, such as 1820"
    raise FormatError(where, expected=expected, found=value)


def _check_symmetry(scores: Mapping[str, Mapping[str, Score]], source: str) -> None:
    for item, row in scores.items():
        for other, score in row.items():
            back = scores.get(other, {}).get(item, score)
            if back != score:
                expected = f"the same score in both directions between {item} and {other}"
                raise FormatError(source, expected=expected, found=f"{score.value} and {back.value}")

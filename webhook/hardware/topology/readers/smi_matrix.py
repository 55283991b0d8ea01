"""The matrix of ``nvidia-smi topo -m`` as it is printed: labels, words, and the columns after them.

Drivers differ. All print a header and a row for each device, separated by tabs; copies often have blanks instead. NICs
have the columns NIC0, NIC1 and a legend after the matrix; older drivers used their names. After the devices comes the
column ``CPU Affinity``, in later drivers also ``NUMA Affinity``, and then also ``GPU NUMA ID``. Any of their values may
be missing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webhook.hardware.topology.consistency import MAX_GPUS, MAX_LINKS, MAX_NICS
from webhook.hardware.topology.matrix import AFFINITY_COLUMNS, NIC_LEGEND, SELF, UNKNOWN
from webhook.hardware.topology.pcie import PciePath
from webhook.hardware.topology.readers.smi_text import Line
from webhook.words.errors import FormatError

CPU_AFFINITY, NUMA_AFFINITY, GPU_NUMA_ID = AFFINITY_COLUMNS

_GPU = re.compile(r"GPU(0|[1-9]\d{0,2})")
_NIC = re.compile(r"NIC(0|[1-9]\d{0,2})")
_HEADER = re.compile(r"\s*(GPU\d.*?)\s(CPU\s+Affinity\b.*)")
_TITLES = ((CPU_AFFINITY,), (CPU_AFFINITY, NUMA_AFFINITY), (CPU_AFFINITY, NUMA_AFFINITY, GPU_NUMA_ID))
_NVLINKS = re.compile(r"NV([1-9]\d?)")
_LIST = re.compile(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*")
_VALUES = {
    CPU_AFFINITY: (_LIST, "CPUs such as 0-47,96-143"),
    NUMA_AFFINITY: (_LIST, "NUMA nodes such as 0 or 0-1"),
    GPU_NUMA_ID: (re.compile(r"\d{1,6}"), "the number of a NUMA node"),
}
_OLD_WORDS = {"SOC": PciePath.SYS.value}
"""The word for SYS in drivers of the first DGX-1."""
_PATHS = frozenset(path.value for path in PciePath)
_WORDS = f"NV#, {', '.join(PciePath)} or {UNKNOWN}"
_UNWRAPPED = "Save the whole output of nvidia-smi topo -m, one line for each device, unwrapped"


@dataclass(frozen=True, slots=True)
class SmiMatrix:
    """The content of the matrix. Devices have the labels GPU0, NIC0 even if the text has other labels for its NICs."""

    gpus: tuple[int, ...]
    """Indices in the order of the columns."""
    nics: tuple[str, ...]
    """Names, NIC0 first; the label of a NIC if its name is unknown."""
    words: Mapping[str, Mapping[str, str]]
    """The words from each device to all others: ``NV18``, ``PIX``, ``N/A``."""
    affinities: Mapping[int, Mapping[str, str]]
    """The values of each GPU in the columns after the devices, by title; missing values are left out."""
    has_nvlinks: bool
    """Whether the matrix would show NVLinks. The legend of ``nvidia-smi topo -mp`` and of the oldest drivers has
    none."""

    def links(self) -> dict[tuple[int, int], int]:
        """Returns the number of NVLinks of each pair of GPUs, the lesser index first, without pairs of unknown path."""
        pairs = (
            (gpu, other, self.words[f"GPU{gpu}"][f"GPU{other}"])
            for gpu in self.gpus
            for other in self.gpus
            if gpu < other
        )
        return {(one, other): nvlinks(word) for one, other, word in pairs if word != UNKNOWN}

    def distance(self, label: str) -> tuple[tuple[str, str], ...]:
        """Returns the PCIe paths from a device to others. The path to a GPU with NVLinks is not printed."""
        return tuple((other, word) for other, word in self.words[label].items() if word in _PATHS)


def nvlinks(word: str) -> int:
    """Returns the number of NVLinks of a word: 18 for ``NV18``, 0 for a word without NVLinks."""
    found = _NVLINKS.fullmatch(word)
    return int(found[1]) if found else 0


def has_matrix(lines: Sequence[Line]) -> bool:
    """Returns whether a text has the header of a matrix, complete or not."""
    return any("Affinity" in line.words for line in lines)


def parse_matrix(lines: Sequence[Line], *, source: str) -> SmiMatrix:
    """Finds the matrix in a text and reads it.

    Raises:
        FormatError: the text has no matrix, or more than one; a row is missing, too short or too long; a word is
            unknown, or differs between the two directions.
    """
    headers = [(position, found) for position, line in enumerate(lines) if (found := _HEADER.fullmatch(line.text))]
    if len(headers) != 1:
        places = " and ".join(lines[position].where for position, _ in headers[:2]) or "none"
        expected = "one matrix with a header GPU0 ... CPU Affinity"
        raise FormatError(source, expected=expected, found=places, fix=_UNWRAPPED)
    start, columns = headers[0]
    header = _read_header(lines[start].checked(), columns[1].split(), columns[2])
    following = [line for line in lines[start + 1 :] if line.words]
    rows = _read_rows(header, following)
    _check_symmetry(header, rows)
    return SmiMatrix(
        gpus=tuple(int(label.removeprefix("GPU")) for label in header.labels if _is_gpu(label)),
        nics=_nic_names(header, following[len(rows) :]),
        words={
            row.label: {label: word for label, word in zip(header.labels, row.words, strict=True) if label != row.label}
            for row in rows
        },
        has_nvlinks=not _knows_no_nvlinks(following[len(rows) :]),
        affinities={int(row.label.removeprefix("GPU")): row.values for row in rows if _is_gpu(row.label)},
    )


@dataclass(frozen=True, slots=True)
class _Header:
    where: str
    devices: Sequence[str]
    """The labels of the devices in the text."""
    labels: Sequence[str]
    """The labels of the devices in the topology."""
    titles: Sequence[str]
    """The titles of the columns after the devices."""

    @property
    def nics(self) -> list[str]:
        return [device for device in self.devices if not _is_gpu(device)]


@dataclass(frozen=True, slots=True)
class _Row:
    where: str
    label: str
    words: Sequence[str]
    values: Mapping[str, str]


def _is_gpu(device: str) -> bool:
    return bool(_GPU.fullmatch(device))


def _read_header(line: Line, devices: Sequence[str], titles: str) -> _Header:
    known = next((known for known in _TITLES if " ".join(known) == " ".join(titles.split())), None)
    if not known:
        raise FormatError(line.where, expected=f"the columns {', '.join(_TITLES[-1])}", found=titles)
    gpus = sum(_is_gpu(device) for device in devices)
    for what, found, most in (("GPUs", gpus, MAX_GPUS), ("NICs", len(devices) - gpus, MAX_NICS)):
        if found > most:
            raise FormatError(line.where, expected=f"at most {most} {what}", found=found)
    if len(set(devices)) < len(devices):
        twice = next(device for device in devices if devices.count(device) > 1)
        raise FormatError(line.where, expected="each device once", found=f"{twice} twice")
    labels: list[str] = []
    for device in devices:
        label = device if _is_gpu(device) else f"NIC{sum(not _is_gpu(label) for label in labels)}"
        if _NIC.fullmatch(device) and device != label:
            raise FormatError(line.where, expected=f"the column {label}", found=device, fix=_UNWRAPPED)
        labels.append(label)
    return _Header(line.where, devices, labels, known)


def _read_rows(header: _Header, following: Sequence[Line]) -> list[_Row]:
    rows: list[_Row] = []
    for position, device in enumerate(header.devices):
        if position == len(following):
            where = rows[-1].where if rows else header.where
            raise FormatError(where, expected=f"the row of {device} below", found="the end", fix=_UNWRAPPED)
        line = following[position].checked()
        if line.words[0] != device:
            raise FormatError(line.where, expected=f"the row of {device}", found=line.words[0], fix=_UNWRAPPED)
        words, values = _row_words(header, position, line), _row_values(header, position, line)
        rows.append(_Row(line.where, header.labels[position], words, values))
    for line in following[len(rows) : len(rows) + 1]:
        if _is_gpu(line.words[0]) or _NIC.fullmatch(line.words[0]):
            last = header.devices[-1]
            raise FormatError(line.where, expected=f"{last} to be the last row", found=line.words[0], fix=_UNWRAPPED)
    if any(row.values for row in rows):
        _check_complete(header, following)
    return rows


def _row_words(header: _Header, position: int, line: Line) -> list[str]:
    words = line.words[1 : 1 + len(header.devices)]
    if len(words) < len(header.devices):
        expected = f"a word for each of the columns {header.devices[0]} to {header.devices[-1]}"
        found = f"{len(words)} of {len(header.devices)}"
        raise FormatError(line.where, expected=expected, found=found, fix=_UNWRAPPED)
    label = header.labels[position]
    for column, word in enumerate(words):
        where = f"{line.where}, column {header.devices[column]}"
        _check_word(where, word, itself=column == position, gpus=_is_gpu(label) and _is_gpu(header.labels[column]))
    return [_OLD_WORDS.get(word, word) for word in words]


def _check_word(where: str, word: str, *, itself: bool, gpus: bool) -> None:
    if itself:
        if word != SELF:
            raise FormatError(where, expected=f"{SELF}, because that is the device itself", found=word)
        return
    if nvlinks(word) > MAX_LINKS:
        raise FormatError(where, expected=f"at most {MAX_LINKS} NVLinks", found=word)
    if nvlinks(word) and not gpus:
        raise FormatError(where, expected="a PCIe path, because NVLinks join only GPUs", found=word)
    if not nvlinks(word) and word not in (UNKNOWN, *_OLD_WORDS, *_PATHS):
        raise FormatError(where, expected=_WORDS, found=word)


def _row_values(header: _Header, position: int, line: Line) -> dict[str, str]:
    """Returns the values of a row after the devices, by title. NICs have none."""
    printed = line.words[1 + len(header.devices) :]
    is_gpu = _is_gpu(header.labels[position])
    if len(printed) > len(header.titles) or not (is_gpu or set(printed) <= {UNKNOWN}):
        expected = f"nothing behind {header.titles[-1] if is_gpu else header.devices[-1]}"
        raise FormatError(line.where, expected=expected, found=printed[-1])
    values = printed if len(printed) == len(header.titles) else _spread(header, line, printed)
    named = {title: value for title, value in zip(header.titles, values, strict=True) if value != UNKNOWN}
    for title, value in named.items():
        pattern, expected = _VALUES[title]
        if not pattern.fullmatch(value):
            raise FormatError(f"{line.where}, column {title}", expected=expected, found=value)
    return named


def _spread(header: _Header, line: Line, printed: Sequence[str]) -> list[str]:
    """Returns the values in the order of the titles if some are missing: then only the tabs show which.

    nvidia-smi writes one tab before each value, and one more before the last of three.
    """
    values = [UNKNOWN] * len(header.titles)
    if set(printed) <= {UNKNOWN}:
        return values
    fields = [field.strip() for field in line.text.split("\t")]
    for column, field in enumerate(fields[1 + len(header.devices) :]):
        if field:
            values[min(column, len(values) - 1)] = field
    if set(printed) - {*values, UNKNOWN}:
        expected = f"values for {', '.join(header.titles)}"
        raise FormatError(line.where, expected=expected, found=" ".join(printed), fix="Keep the tabs of nvidia-smi")
    return values


def _check_complete(header: _Header, following: Sequence[Line]) -> None:
    """Raises if a row of a GPU ends before the affinity.

    nvidia-smi prints it for all GPUs or for none, so such a text was cut off.
    """
    for device, line in zip(header.devices, following, strict=False):
        if _is_gpu(device) and len(line.words) == 1 + len(header.devices):
            raise FormatError(
                line.where, expected=f"values for {', '.join(header.titles)}", found="nothing", fix=_UNWRAPPED
            )


def _check_symmetry(header: _Header, rows: Sequence[_Row]) -> None:
    for position, row in enumerate(rows):
        for column in range(position):
            there = rows[column].words[position]
            if row.words[column] != there:
                raise FormatError(
                    f"{row.where}, column {header.devices[column]}",
                    expected=f"{there}, as in the row of {header.devices[column]}",
                    found=row.words[column],
                )


def _knows_no_nvlinks(behind: Sequence[Line]) -> bool:
    first = {line.words[0] for line in behind}
    return "Legend:" in first and "NV#" not in first


def _nic_names(header: _Header, behind: Sequence[Line]) -> tuple[str, ...]:
    """Returns the names of the NICs from the legend; without a legend, those of the columns."""
    titles = [position for position, line in enumerate(behind) if line.text.strip() == NIC_LEGEND]
    if not titles or not any(_NIC.fullmatch(nic) for nic in header.nics):
        return tuple(header.nics)
    names = _read_legend(behind[titles[0] + 1 :])
    if list(names) != header.nics:
        expected = f"the names of {header.nics[0]} to {header.nics[-1]}"
        raise FormatError(behind[titles[0]].where, expected=expected, found=", ".join(names) or "none")
    return tuple(names.values())


def _read_legend(behind: Sequence[Line]) -> dict[str, str]:
    names: dict[str, str] = {}
    for line in behind:
        label, _, name = line.checked().text.strip().partition(":")
        if not _NIC.fullmatch(label):
            break
        if label in names or not name.strip() or not name.strip().isprintable():
            raise FormatError(line.where, expected="each NIC once, with its name", found=line.text.strip())
        names[label] = name.strip()
    return names

"""The real bindings call the stub: each function that we use arrives there, with the layouts and errors of NVML."""

from collections.abc import Iterator
from ctypes import byref
from pathlib import Path
from typing import Any

import pynvml  # type: ignore[import-untyped]  # NVIDIA's bindings carry no types
import pytest

import webhook.hardware.discovery.counters
import webhook.hardware.discovery.each_card
import webhook.hardware.discovery.field_values
import webhook.hardware.discovery.nvml
import webhook.hardware.discovery.usage
from tests.nvml.machines import Machine, dgx1_v100, gb200_tray, h20, hgx_a100, l40s, write_machine
from tests.nvml.stub import Play

SOURCES = Path(webhook.hardware.discovery.nvml.__file__).parents[2]
STARTERS = [
    Path(module.__file__ or "") for module in (webhook.hardware.discovery.each_card, webhook.hardware.discovery.nvml)
]
"""The modules that may start NVML."""
READERS = (
    webhook.hardware.discovery.counters,
    webhook.hardware.discovery.field_values,
    webhook.hardware.discovery.usage,
)
LOADERS = sorted([*STARTERS, *(Path(module.__file__ or "") for module in READERS)])
"""The modules that may load the bindings."""


TIME = 1_700_000_000_000_000
"""When the stub says that it has read a field."""


@pytest.fixture
def handle(play: Play) -> Iterator[Any]:
    """The first GPU of the tray, with NVML started."""
    play(gb200_tray().with_lines("p2p 0 1 2", "ancestor 0 1 40").with_card(0, affinity=("ff", "1"), lines=("numa 2",)))
    pynvml.nvmlInit()
    yield pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlShutdown()


def other() -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(1)


def test_an_affinity_has_words_of_64_bits(handle: Any) -> None:
    assert list(pynvml.nvmlDeviceGetCpuAffinity(handle, 3)) == [255, 1, 0]


def test_field_values_have_the_layout_of_nvml_and_an_error_each(handle: Any) -> None:
    values = pynvml.nvmlDeviceGetFieldValues(handle, [(165, 17), (165, 18), 170, (171, 9), (172, 9), 1])
    assert [(value.fieldId, value.scopeId, value.nvmlReturn) for value in values] == [
        (165, 17, 0),
        (165, 18, 2),
        (170, 0, 0),
        (171, 9, 0),
        (172, 9, 0),
        (1, 0, 3),
    ]
    answered = [(value.valueType, value.value.uiVal, value.timestamp) for value in values if value.nvmlReturn == 0]
    assert answered == [(1, 1, TIME), (1, 10, TIME), (1, 1, TIME), (1, 44712, TIME)]


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (gb200_tray(), (0, 18)),
        (hgx_a100(), (0, 12)),
        (hgx_a100().with_slots(18), (0, 12)),
        (dgx1_v100().with_link(0, 4, None), (0, 5)),
        (l40s(), (3, None)),
        (hgx_a100().without_link_count(), (3, None)),
    ],
    ids=["tray", "a100", "a100 where 18 answer", "gap", "without NVLink", "old driver"],
)
def test_a_driver_says_how_many_links_there_are(machine: Machine, expected: tuple[int, int | None], play: Play) -> None:
    play(machine)
    pynvml.nvmlInit()
    (count,) = pynvml.nvmlDeviceGetFieldValues(pynvml.nvmlDeviceGetHandleByIndex(0), [91])
    assert (count.nvmlReturn, None if count.nvmlReturn else count.value.uiVal) == expected
    pynvml.nvmlShutdown()


def test_a_link_that_is_not_there_answers_as_that_of_nvidias_own_mock_does(play: Play) -> None:
    play(hgx_a100().with_slots(18))
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    for link in range(12, 18):
        assert pynvml.nvmlDeviceGetNvLinkCapability(gpu, link, 0) == 0
        assert pynvml.nvmlDeviceGetNvLinkState(gpu, link) == 0
        assert pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(gpu, link) == 255
        assert pynvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, link).busId == ""
    with pytest.raises(pynvml.NVMLError, match="Invalid Argument"):
        pynvml.nvmlDeviceGetNvLinkState(gpu, 18)
    pynvml.nvmlShutdown()


@pytest.mark.parametrize("code", [2, 3])
def test_a_link_that_is_not_there_may_have_a_capability_and_no_state(code: int, play: Play) -> None:
    assert raised(h20().with_slots(36, p2p=True, code=code), play, "nvmlDeviceGetNvLinkState", 35) == code
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetNvLinkCapability(pynvml.nvmlDeviceGetHandleByIndex(0), 35, 0) == 1
    pynvml.nvmlShutdown()


def test_the_mask_of_the_fabric_s_health_has_its_place_too(play: Play) -> None:
    play(gb200_tray().with_card(0, fabric="3 0 7 5e3a91c470d24b6f8f15c2a9d4e60b37 1aa"))
    pynvml.nvmlInit()
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(pynvml.nvmlDeviceGetHandleByIndex(0), byref(info))
    pynvml.nvmlShutdown()
    assert (info.state, info.healthMask) == (3, 0x1AA)


def test_the_memory_information_has_the_layout_of_nvml(play: Play) -> None:
    play(gb200_tray().with_card(0, lines=("used 1048576", "reserved 4096")))
    pynvml.nvmlInit()
    first = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0))
    second = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0), pynvml.nvmlMemory_v2)
    pynvml.nvmlShutdown()
    assert (first.used, second.used, second.reserved) == (1048576 + 4096, 1048576, 4096)


def test_processes_have_the_layout_of_nvml(play: Play) -> None:
    play(gb200_tray().with_card(0, lines=("processes 3",)))
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    found = [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
    none = pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
    pynvml.nvmlShutdown()
    assert (found, none) == ([1000, 1001, 1002], [])


def test_no_other_module_loads_the_bindings() -> None:
    importers = [path for path in SOURCES.rglob("*.py") if "import pynvml" in path.read_text()]
    assert sorted(importers) == LOADERS


def test_no_other_module_starts_nvml() -> None:
    starters = [path for path in SOURCES.rglob("*.py") if "nvmlInit" in path.read_text()]
    assert sorted(starters) == STARTERS


def test_utilisation_is_told_in_per_cent(play: Play) -> None:
    play(gb200_tray().with_counters(0, busy=93))
    pynvml.nvmlInit()
    rates = pynvml.nvmlDeviceGetUtilizationRates(pynvml.nvmlDeviceGetHandleByIndex(0))
    pynvml.nvmlShutdown()
    assert (rates.gpu, rates.memory) == (93, 0)


def test_a_gpu_may_have_no_utilisation(play: Play) -> None:
    assert raised(h20(), play, "nvmlDeviceGetUtilizationRates") == 3


def raised(machine: Machine, play: Play, function: str, *arguments: object) -> int:
    """The error of a function that is called for the first GPU of a machine."""
    play(machine)
    pynvml.nvmlInit()
    try:
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        with pytest.raises(pynvml.NVMLError, match=r"\w") as error:
            getattr(pynvml, function)(gpu, *arguments)
    finally:
        pynvml.nvmlShutdown()
    return int(error.value.value)


def test_a_link_in_a_gap_is_not_supported(play: Play) -> None:
    assert raised(h20().with_link(0, 4, None), play, "nvmlDeviceGetNvLinkState", 4) == 3


def test_links_of_a_gpu_without_nvlink_are_not_supported(play: Play) -> None:
    assert raised(h20().with_card(0, links=()), play, "nvmlDeviceGetNvLinkCapability", 0, 0) == 3


def test_an_affinity_that_does_not_fit_is_an_insufficient_size(play: Play) -> None:
    assert raised(h20(), play, "nvmlDeviceGetCpuAffinity", 2) == 7


def test_nothing_answers_before_nvml_is_started(play: Play) -> None:
    play(h20())
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError, match="Uninitialized"):
        pynvml.nvmlDeviceGetCount()


def test_handles_die_with_nvml(play: Play) -> None:
    play(h20())
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    try:
        with pytest.raises(pynvml.NVMLError, match="Invalid Argument"):
            pynvml.nvmlDeviceGetName(gpu)
    finally:
        pynvml.nvmlShutdown()


@pytest.mark.parametrize(
    "line",
    [
        "gpu 0 colour green",
        "gpu 1 name NVIDIA H20",
        "gpu 0 link 36 up switch -",
        "gpu 0 link 0 up switch",
        "gpu 0 link 0 half switch -",
        "gpu 0 fabric 3 0 0 xyz",
        "gpu 0 slots 37 0 0",
        "gpu 0 slots 18 2 0",
        "gpu 0 value 138 0 ulonglong",
        "gpu 0 value 138 0 float 1",
        "p2p 0 1",
        "what is this",
    ],
)
def test_a_line_that_the_stub_does_not_understand_stops_it(
    line: str, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    play(h20())
    description = tmp_path / "wrong.txt"
    description.write_text(f"# a machine that is none\ndriver 570\n\n{line}\n")
    monkeypatch.setenv("NVML_STUB_MACHINE", str(description))
    with pytest.raises(pynvml.NVMLError, match="Unknown Error"):
        pynvml.nvmlInit()
    assert capfd.readouterr().err == f"nvml_stub: {description}:4 is not understood\n"


def test_a_description_that_is_not_there_stops_the_stub(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_machine(h20(), tmp_path)
    play(h20())
    monkeypatch.setenv("NVML_STUB_MACHINE", str(tmp_path / "gone.txt"))
    with pytest.raises(pynvml.NVMLError, match="Unknown Error"):
        pynvml.nvmlInit()
    assert capfd.readouterr().err == f"nvml_stub: cannot open {tmp_path / 'gone.txt'}\n"

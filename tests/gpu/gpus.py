"""What CUDA's driver answers on one GPU, and how fast memory is: within one GPU, and between them."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ctypes import POINTER, Structure, byref, c_int, c_size_t, c_uint, c_ulonglong
from pathlib import Path
from typing import Any

from tests.gpu.outcome import Machine, NotTriedError, Outcome, Verdict, holds_if
from webhook.hardware.measurement.peers import HandleKind
from webhook.hardware.measurement.report import Warn
from webhook.hardware.measurement.verdict import CARRIED, middle
from webhook.programs.verify import abi
from webhook.programs.verify.cuda import LIBRARY, Cuda
from webhook.programs.verify.library import CallFailed, Library, explained
from webhook.programs.verify.measure import Cards, Sharing, buffer, rates, repeated, timed
from webhook.programs.verify.process import Method

LEAST_GBPS, MOST_GBPS = 300.0, 9000.0
"""GB/s read and written within a GPU with NVLink: HBM2 of a V100 has 900, HBM3e of a B200 8,000. An H200 copies with
some 4,300. An error of a unit is a factor of 1,000."""
MOST_COUNTED = 1.25
"""Times the copied bytes: counters that rise by more count something else than data. It is our choice."""
CHANNELS = Path("/dev/nvidia-caps-imex-channels")
"""Where NVIDIA's kernel module expects the devices of IMEX channels."""
_SIZE, _COPIES = 1024**3, 16
_ATTRIBUTES = {"multicast": 132, "fabric": 128}
"""``CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED`` and ``..._HANDLE_TYPE_FABRIC_SUPPORTED`` of cuda.h."""


class MulticastObjectProp(Structure):
    """``CUmulticastObjectProp``."""

    _fields_ = [("num_devices", c_uint), ("size", c_size_t), ("handle_types", c_ulonglong), ("flags", c_ulonglong)]


_OBJECT, _SIZE_T, _FLAGS = abi.AllocationHandle, c_size_t, c_ulonglong
_DRIVER: abi.Prototypes = {
    **abi.CUDA,
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, abi.Device),
    "cuMulticastGetGranularity": (POINTER(c_size_t), POINTER(MulticastObjectProp), c_int),
    "cuMulticastCreate": (POINTER(_OBJECT), POINTER(MulticastObjectProp)),
    "cuMulticastAddDevice": (_OBJECT, abi.Device),
    "cuMulticastBindMem": (_OBJECT, _SIZE_T, _OBJECT, _SIZE_T, _SIZE_T, _FLAGS),
    "cuMulticastUnbind": (_OBJECT, abi.Device, _SIZE_T, _SIZE_T),
}
"""Functions of cuda.h since CUDA 12.1, which no program of ours calls, beside those that it does."""
_POSIX_FD, _RECOMMENDED, _PINNED, _ON_DEVICE = 1, 1, 1, 1
_MIB = 1024**2
_NOTHING_MEASURED = 2
"""The exit code of ``gpu-topology verify``."""


def opened() -> Cards:
    """Start CUDA.

    Raises:
        NotTriedError: it does not start.
    """
    try:
        return Cards(Cuda())
    except OSError as error:
        raise NotTriedError(f"no CUDA: {error}") from None
    except CallFailed as error:
        raise NotTriedError(f"CUDA does not start: {explained(error.function, error.code)}") from None


def local_copy(_: Machine) -> Outcome:
    """Copy within one GPU: a rate that its memory can have shows that units and events are right."""
    cards = opened()
    cuda = cards.cuda
    card = cards.card(cuda.uuids()[0])
    with buffer(cuda, card, _SIZE) as source, buffer(cuda, card, _SIZE) as target, cuda.stream(card) as stream:

        def queue() -> None:
            for _ in range(_COPIES):
                cuda.library.call("cuMemcpyDtoDAsync_v2", target, source, _SIZE, stream)

        times = repeated(Method(), lambda: timed(cuda, card, stream, queue))
    gbps = 2 * (middle(rates(_SIZE * _COPIES, times)) or 0.0)
    return holds_if(LEAST_GBPS <= gbps <= MOST_GBPS, f"{gbps:.1f} GB/s read and written within one GPU", gbps=gbps)


def multicast(_: Machine) -> Outcome:
    """Make, bind and free a multicast object of one GPU, as NCCL does for NVLink SHARP (NCCL src/transport/nvls.cc)."""
    cards, driver = opened(), Library(LIBRARY, _DRIVER)
    card = cards.card(cards.cuda.uuids()[0])
    if not _has(driver, card.device, "multicast"):
        return Outcome(Verdict.SEEN, "the driver says that this GPU has no multicast")
    wanted = MulticastObjectProp(num_devices=1, handle_types=_POSIX_FD)
    size, shared, memory = c_size_t(), abi.AllocationHandle(), abi.AllocationHandle()
    location = abi.MemLocation(_ON_DEVICE, card.device)
    of_memory = abi.MemAllocationProp(type=_PINNED, requested_handle_types=_POSIX_FD, location=location)
    driver.call("cuMulticastGetGranularity", byref(size), byref(wanted), _RECOMMENDED)
    wanted.size = size.value

    def make() -> None:
        driver.call("cuMulticastCreate", byref(shared), byref(wanted))
        driver.call("cuMulticastAddDevice", shared, card.device)
        driver.call("cuMemCreate", byref(memory), size.value, byref(of_memory), 0)
        driver.call("cuMulticastBindMem", shared, 0, memory, 0, size.value, 0)
        driver.call("cuMulticastUnbind", shared, card.device, 0, size.value)
        driver.call("cuMemRelease", memory)
        driver.call("cuMemRelease", shared)

    return _answered(make, f"a multicast object of {size.value // _MIB} MiB is made, bound and freed")


def fabric_handle(_: Machine) -> Outcome:
    """Make memory with a FABRIC handle and export it, with the IMEX channels that are here."""
    cards = opened()
    uuid = cards.cuda.uuids()[0]
    channels = f"IMEX channels: {', '.join(_channels()) or 'none'}"
    if not _has(Library(LIBRARY, _DRIVER), cards.device(uuid), "fabric"):
        return Outcome(Verdict.SEEN, f"the driver says that this GPU has no fabric handles; {channels}")
    made = _answered(lambda: Sharing(cards).offer(uuid, HandleKind.FABRIC, 2 * _MIB), "a fabric handle is made")
    return Outcome(made.verdict, f"{made.why}; {channels}", made.facts)


def imex_channel(machine: Machine) -> Outcome:
    """Make an IMEX channel where the driver offers them and none is here, and ask again; as root."""
    with suppress(OSError):
        devices = Path("/proc/devices").read_text(encoding="utf-8").splitlines()
        major = next((line.split()[0] for line in devices if line.endswith("nvidia-caps-imex-channels")), "")
        if major and not _channels():
            CHANNELS.mkdir(exist_ok=True)
            os.mknod(CHANNELS / "channel0", 0o666 | stat.S_IFCHR, os.makedev(int(major), 0))
            try:
                return fabric_handle(machine)
            finally:
                (CHANNELS / "channel0").unlink()
    raise NotTriedError("the driver offers no IMEX channel that could be made here")


def _channels() -> list[str]:
    return sorted(path.name for path in CHANNELS.iterdir()) if CHANNELS.is_dir() else []


def _has(driver: Library, device: int, what: str) -> bool:
    found = c_int()
    driver.call("cuDeviceGetAttribute", byref(found), _ATTRIBUTES[what], device)
    return bool(found.value)


def _answered(ask: Callable[[], object], said: str) -> Outcome:
    """What the driver answers, which is no claim of this project."""
    try:
        ask()
    except CallFailed as error:
        return Outcome(Verdict.SEEN, explained(error.function, error.code), {"code": error.code})
    return Outcome(Verdict.SEEN, said, {"code": 0})


def verify_one(machine: Machine) -> Outcome:
    """Run ``gpu-topology verify``: with one GPU it says that there is nothing to measure between GPUs."""
    done, report = _verify(machine)
    said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if len(machine.topology.gpus) > 1:
        if done.returncode == _NOTHING_MEASURED:
            raise NotTriedError(f"exit code {done.returncode}: {said}")
        return holds_if(done.returncode in {0, 1}, f"exit code {done.returncode}; the steps below judge the report")
    measured = [*report.get("pairs", ()), *report.get("sets", ())]
    return holds_if(done.returncode == _NOTHING_MEASURED and not measured, f"exit code {done.returncode}: {said}")


def pairs(machine: Machine) -> Outcome:
    """Judge each pair that was measured: its rate is that of its links."""
    known = {_ends(pair): _word(pair) for pair in _measured(machine) if _word(pair) != "unknown"}
    if not known:
        raise NotTriedError("no pair of GPUs could be measured and judged")
    wrong = [f"{ends} {word}" for ends, word in known.items() if word != "as-expected"]
    return holds_if(not wrong, "; ".join(wrong) or f"{len(known)} directions are as expected")


def counted_bytes(machine: Machine) -> Outcome:
    """Compare the bytes that the counters of both GPUs show with those that were copied over NVLink."""
    linked = [pair for pair in _measured(machine) if str(pair.get("link")).startswith("NV") and pair.get("peerAccess")]
    shares = []
    for pair in linked:
        counted = [number for way in ("Sent", "Received") if (number := pair.get(f"nvlink{way}Bytes")) is not None]
        if len(counted) == len(("sent", "received")) and pair.get("copiedBytes"):
            shares.append([number / pair["copiedBytes"] for number in counted])
    if not shares:
        raise NotTriedError("no pair over NVLink was measured on GPUs that count bytes")
    least, most = min(map(min, shares)), max(map(max, shares))
    why = f"{least:.3g} to {most:.3g} of the copied bytes, in {len(shares)} of {len(linked)} directions"
    return holds_if(least >= CARRIED and most <= MOST_COUNTED, why)


def _verify(machine: Machine) -> tuple["subprocess.CompletedProcess[str]", Mapping[str, Any]]:
    command = [sys.executable, "-m", "webhook", "verify", "--force", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stderr)
    (machine.folder / "verify-report.json").write_text(done.stdout, encoding="utf-8")
    with suppress(ValueError):
        found = json.loads(done.stdout)
        return done, found if isinstance(found, dict) else {}
    return done, {}


def _measured(machine: Machine) -> list[dict[str, Any]]:
    try:
        report = json.loads((machine.folder / "verify-report.json").read_text(encoding="utf-8"))
        return list(report["pairs"])
    except (OSError, ValueError, KeyError):
        raise NotTriedError("gpu-topology verify wrote no report") from None


def _word(pair: Mapping[str, Any]) -> str:
    return Warn.WRONG_DATA if Warn.WRONG_DATA in (pair.get("warnings") or ()) else str(pair.get("verdict"))


def _ends(pair: Mapping[str, Any]) -> str:
    return f"{pair.get('source')} to {pair.get('target')}"


@contextmanager
def ended(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    """Kill a program at the end."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()

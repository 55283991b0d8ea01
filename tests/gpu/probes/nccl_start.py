"""``nccl_start UUIDS FILE|broken|none FOLDER [conf]``: NCCL of these cards starts, reduces, and tells of its topology.

The cards are listed with commas, a rank for each. With ``conf`` NCCL gets the topology file through its configuration
file, as from the remap container.
"""

import os
import sys
from pathlib import Path

from tests.gpu.nccl_log import read_nccl_log
from tests.gpu.probes.ending import ended, not_tried
from tests.gpu.steps import NO_FILE
from webhook.hardware.measurement.messages import Method
from webhook.programs.verify.cuda import Cuda
from webhook.programs.verify.errors import explained
from webhook.programs.verify.library import CallFailed
from webhook.programs.verify.measure import Cards, measure_set
from webhook.programs.verify.nccl import Nccl

_BROKEN = '<system version="1">\n\t<cpu numaid="0"/>\n</system>\n'
"""NCCL's parser takes no tab: it ends the start of the communicator."""
_OF_CUDA = 1
"""``ncclUnhandledCudaError``, which is not about the file."""
_READS_CONF = "2.23"
"""The first release that reads the file of ``NCCL_CONF_FILE``: src/misc/param.cc."""
_QUICK = Method(reduced_bytes=(1024**2, 64 * 1024**2), samples=3, warm_ups=1)


def main() -> None:
    """Start NCCL in this process."""
    uuids, file, folder = sys.argv[1].split(","), sys.argv[2], Path(sys.argv[3])
    is_conf = sys.argv[4:] == ["conf"]
    if file not in {"none", "broken"} and not (Path(file).is_file() and Path(file).stat().st_size):
        not_tried(NO_FILE)
    folder.mkdir(parents=True, exist_ok=True)
    _prepare(file, folder, is_conf=is_conf)
    try:
        nccl = Nccl()
        cards = Cards(Cuda())
    except OSError as error:
        not_tried(str(error))
    except CallFailed as error:
        not_tried(explained(error.function, error.code))
    if is_conf and _numbers(nccl.version()) < _numbers(_READS_CONF):
        not_tried(f"NCCL {nccl.version()} reads no configuration file, {_READS_CONF} is the first that does")
    try:
        found = measure_set(cards, nccl, uuids, _QUICK)
    except CallFailed as error:
        told = "; ".join(filter(None, (explained(error.function, error.code), error.said)))
        is_refused = file == "broken" and error.function == "ncclCommInitAll" and error.code != _OF_CUDA
        ended({"nccl": nccl.version(), "said": error.said}, "" if is_refused else told, told if is_refused else "")
    seen = {"nccl": nccl.version(), "milliseconds": found.milliseconds, "latencyMicroseconds": found.latency_us}
    ended(seen, _problem(file, folder))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _prepare(file: str, folder: Path, *, is_conf: bool) -> None:
    """The variables that NCCL reads when it is loaded."""
    os.environ |= {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH",
        "NCCL_DEBUG_FILE": str(folder / "nccl.log"),
        "NCCL_TOPO_DUMP_FILE": str(folder / "dump.xml"),
    }
    if file == "broken":
        (folder / "broken.xml").write_text(_BROKEN, encoding="utf-8")
        os.environ["NCCL_TOPO_FILE"] = str(folder / "broken.xml")
    elif is_conf:
        (folder / "nccl.conf").write_text(f"NCCL_TOPO_FILE={file}\n", encoding="utf-8")
        os.environ["NCCL_CONF_FILE"] = str(folder / "nccl.conf")
    elif file != "none":
        os.environ["NCCL_TOPO_FILE"] = file


def _problem(file: str, folder: Path) -> str:
    """Why NCCL, which has started, did not do with the file what it should; empty if it did."""
    if file == "none":
        return ""
    if file == "broken":
        return "NCCL started with a file that it cannot read"
    path = folder / "nccl.log"
    log = read_nccl_log(path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else [])
    if not log.is_built:
        not_tried("NCCL did not say what topology it has")
    if log.topology_file != file:
        return "NCCL was told of no topology file"
    return "" if log.is_file_opened else "NCCL did not open the topology file"


if __name__ == "__main__":
    main()

"""What the run does, as a list that is shown before it begins. No step reads a file that another step did not write."""

from collections.abc import Mapping, Sequence

import msgspec

from tests.gpu.model import Step
from webhook.hardware.topology.model import Gpu, NodeTopology
from webhook.programs.remap.verdict import ExitCode
from webhook.words import names

TOPOLOGY, TOPOLOGY_TEXT, NCCL_FILE = "topology/topology.json", "topology/nvidia-smi-topo.txt", "topology/nccl-topo.xml"
NCCL_LOG, NCCL_LOG_WITHOUT = "verify/nccl.log", "verify/nccl-without-p2p.log"
REPORT, REPORT_WITHOUT = "verify/report.json", "verify/report-without-p2p.json"
CARD_DUMP, CARDS_DUMP = "card/nccl-plain/dump.xml", "card/nccl-cards-plain/dump.xml"
"""The topology that NCCL has by itself, without our file: of the first card, of all cards."""
CARDS_PLAIN, CARDS_FILE = "card/nccl-cards-plain.txt", "card/nccl-cards-file.txt"
TRAINING, TRAINING_WITHOUT, TRAINING_PLAIN = "training/as-told.json", "training/without-p2p.json", "training/plain.json"
SCRIPT = "training/fsdp_step.py"
NO_FILE = "no topology file was written"
WITHOUT_P2P, RIGHT, WRONG = "verify-without-p2p", "remap-right", "remap-wrong"
_NOWHERE = "GPU-ffffffff-ffff-ffff-ffff-ffffffffffff"
_SUBSYSTEMS = "INIT,ENV,GRAPH,P2P,SHM,NET"
_ALL_CONNECTED = {"NCCL_RUNTIME_CONNECT": "0"}
"""NCCL connects every algorithm at its start, and so tells by what. With cuMem it would connect those in use, and
NVLS has no line for a pair of cards: src/init.cc, ``runtimeConn``."""
_WITHOUT_LINKS = {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
"""NVLS goes over NVLink too, and peer-to-peer access switched off does not switch it off."""


WITHOUT_LINKS = " and ".join(f"{name}={value}" for name, value in _WITHOUT_LINKS.items())
"""How a control run is told to leave NVLink alone."""


def first_steps() -> tuple[Step, ...]:
    """What the machine is."""
    return (
        _tool("kernel", "the kernel", "uname", "-srmo"),
        _tool("cards", "cards, driver and state, in the words of the driver", "nvidia-smi", "-q", "-x"),
        _tool("nvidia-smi-links", "the state of each NVLink", "nvidia-smi", "nvlink", "-s"),
        _tool("nvidia-smi-capabilities", "what each NVLink supports", "nvidia-smi", "nvlink", "-c"),
        _tool("nvidia-smi-p2p", "which cards may read each other's memory", "nvidia-smi", "topo", "-p2p", "r"),
        _tool("container-toolkit", "the version of the container toolkit", "nvidia-ctk", "--version"),
        Step(
            name="nvidia-smi-topo",
            says="how the cards are joined, in the words of the driver",
            argv=("nvidia-smi", "topo", "-m"),
            seconds=60.0,
            output=TOPOLOGY_TEXT,
        ),
        Step(
            name="topology",
            says="how the cards are joined, as the agent would publish it",
            argv=("gpu-topology", "topology", "show", "--output", "json"),
            seconds=60.0,
            output=TOPOLOGY,
        ),
        Step(
            name="topology-file",
            says="the topology file for NCCL",
            argv=("gpu-topology", "topology", "xml"),
            seconds=60.0,
            output=NCCL_FILE,
        ),
    )


def steps_for(
    node: NodeTopology,
    folder: str,
    python: str,
    libraries: str = "",
    preload: str = "",
    seconds: float = 60.0,
    *,
    settings: Sequence[str] = (),
    has_file: bool = True,
) -> tuple[Step, ...]:
    """What is tried on a machine with these cards. What it lacks cards or programs for is listed with that reason.

    Args:
        node: Its topology, with at least one card.
        folder: Of the run, absolute.
        python: The interpreter that has PyTorch; empty: there is none.
        libraries: Where the dynamic linker looks for its NCCL, as LD_LIBRARY_PATH; empty: as this program does.
        preload: HAMi-core's library; empty: there is none.
        seconds: How long the counters of cards without work are watched.
        settings: Of NCCL in the environment, which no step gets.
        has_file: Whether a topology file was written. NCCL gets none otherwise: an empty one would look read.
    """
    alone = "" if len(node.gpus) > 1 else "there is one card here, and this is about several"
    found = [
        _probe("nccl-settings", "no file tells NCCL what the steps do not", "nccl_settings", *settings, seconds=60.0)
    ]
    found += _of_one_card(node.gpus[0], folder, libraries, preload, python, seconds)
    found += [_without(step, alone) for step in _of_cards(node, folder, libraries)]
    found += _remapped(linked_pair(node) or node.gpus[:1], folder)
    found += [
        _without(step, alone)
        for step in (_links_at_rest("links-before"), *_measured(folder, libraries, has_file=has_file))
    ]
    found.append(_without(_links_at_rest("links-after"), alone))
    no_torch = alone or ("" if python else "no Python with PyTorch was named: --python")
    found += [
        _without(step, no_torch or step.hindrance)
        for step in _trained(len(node.gpus), folder, python or "python3", has_file=has_file)
    ]
    return tuple(found)


def _without(step: Step, hindrance: str) -> Step:
    return msgspec.structs.replace(step, hindrance=hindrance)


def _of_one_card(gpu: Gpu, folder: str, libraries: str, preload: str, python: str, seconds: float) -> Sequence[Step]:
    """What one card is enough for."""
    linker = {"LD_LIBRARY_PATH": libraries} if libraries else {}
    core = {"LD_PRELOAD": preload} if preload else {}
    no_core = "" if preload else "no library of HAMi-core was named: --hami-core"
    no_torch = "" if python else "no Python with PyTorch was named: --python"
    torch = (python or "python3", "-c", _TORCH)
    quiet, card = gpu.uuid, str(gpu.index)
    return (
        _probe("agent-dry-run", "the agent calls the node of a healthy card not degraded", "agent", seconds=60.0),
        _probe("nvml-table", "what NVML says of each link and field", "nvml_table", seconds=60.0),
        _probe(
            "local-copy",
            "a copy within a card is as fast as its memory, so units and events are right",
            "local_copy",
            quiet,
            seconds=90.0,
        ),
        *(
            _probe(f"ipc-{way}", f"CUDA IPC between two processes, {says}", "ipc", way, card, card, seconds=180.0)
            for way, says in _IPC_WAYS.items()
        ),
        _probe(
            "nccl-file",
            "NCCL of one rank takes our topology file",
            "nccl_start",
            quiet,
            f"{folder}/{NCCL_FILE}",
            f"{folder}/card/nccl-file",
            seconds=90.0,
            environment=linker,
        ),
        _probe(
            "nccl-conf",
            "and the file of NCCL_CONF_FILE, which names it",
            "nccl_start",
            quiet,
            f"{folder}/{NCCL_FILE}",
            f"{folder}/card/nccl-conf",
            "conf",
            seconds=90.0,
            environment=linker,
        ),
        _probe(
            "nccl-broken-file",
            "and refuses one with a broken element, so it looks at it",
            "nccl_start",
            quiet,
            "broken",
            f"{folder}/card/nccl-broken",
            seconds=90.0,
            environment=linker,
        ),
        _probe(
            "nccl-plain",
            "NCCL of one rank starts and reduces",
            "nccl_start",
            quiet,
            "none",
            f"{folder}/card/nccl-plain",
            seconds=90.0,
            environment=linker,
        ),
        _without(
            _probe(
                "nccl-hami-core",
                "the same with HAMi-core preloaded",
                "nccl_start",
                quiet,
                "none",
                f"{folder}/card/nccl-hami-core",
                seconds=90.0,
                environment={**linker, **core},
            ),
            no_core,
        ),
        Step(
            name="torch-plain",
            says="PyTorch starts NCCL of one rank",
            argv=torch,
            seconds=120.0,
            output="card/torch-plain.txt",
            hindrance=no_torch,
        ),
        Step(
            name="torch-hami-core",
            says="the same with HAMi-core preloaded",
            argv=torch,
            seconds=120.0,
            environment=core,
            output="card/torch-hami-core.txt",
            hindrance=no_torch or no_core,
        ),
        _probe(
            "multicast", "a multicast object of one card is made, bound and freed", "multicast", quiet, seconds=60.0
        ),
        _probe(
            "idle-counters",
            "counters of cards without work stand still",
            "idle_counters",
            f"{seconds:g}",
            seconds=seconds + 60.0,
        ),
    )


def _of_cards(node: NodeTopology, folder: str, libraries: str) -> Sequence[Step]:
    """What NCCL makes of all cards without our file, then with it, and two processes with a card each."""
    linker = {"LD_LIBRARY_PATH": libraries} if libraries else {}
    uuids = ",".join(gpu.uuid for gpu in node.gpus)
    files = {"nccl-cards-plain": "none", "nccl-cards-file": f"{folder}/{NCCL_FILE}"}
    one, other = linked_pair(node) or (node.gpus[0], node.gpus[0])
    cards = (str(one.index), str(other.index))
    return (
        *(
            _probe(
                name,
                f"NCCL of all cards starts and reduces, {'without' if file == 'none' else 'with'} our topology file",
                "nccl_start",
                uuids,
                file,
                f"{folder}/card/{name}",
                seconds=120.0,
                environment=linker,
            )
            for name, file in files.items()
        ),
        _probe("ipc-cards", "CUDA IPC between two processes with a card each", "ipc", "plain", *cards, seconds=180.0),
    )


_IPC_WAYS = {
    "plain": "in the same namespaces",
    "pids": "each in a PID namespace of its own, with different and with equal PID values",
    "isolated": "with IPC and network namespaces of their own as well",
}
_TORCH = """
import os, torch, torch.distributed as d
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", RANK="0", WORLD_SIZE="1")
torch.cuda.set_device(0)
d.init_process_group("nccl")
x = torch.ones(1 << 20, device="cuda")
d.all_reduce(x)
torch.cuda.synchronize()
print(torch.__version__, torch.cuda.nccl.version(), float(x.sum()))
d.destroy_process_group()
"""


def _probe(
    name: str,
    says: str,
    *argv: str,
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> Step:
    return Step(
        name=name,
        says=says,
        argv=("probe", *argv),
        seconds=seconds,
        environment=environment or {},
        output=f"card/{name}.txt",
    )


def linked_pair(node: NodeTopology) -> tuple[Gpu, Gpu] | None:
    """Two cards with NVLink between them; the first two if there are none; None if there are no two."""
    for one in node.gpus:
        for other in node.gpus:
            if one is not other and (one.links_to(other.label) or (one.switch_links and other.switch_links)):
                return one, other
    return (node.gpus[0], node.gpus[1]) if len(node.gpus) > 1 else None


def _tool(name: str, says: str, *argv: str) -> Step:
    return Step(name=name, says=says, argv=argv, seconds=60.0, output=f"versions/{name}.txt")


def _links_at_rest(name: str) -> Step:
    says = "the bytes that each NVLink has moved, by the driver's own program"
    return Step(
        name=name, says=says, argv=("nvidia-smi", "nvlink", "-gt", "d"), seconds=60.0, output=f"verify/{name}.txt"
    )


def _measured(folder: str, libraries: str, *, has_file: bool) -> Sequence[Step]:
    told = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": _SUBSYSTEMS}
    told |= {"NCCL_TOPO_FILE": f"{folder}/{NCCL_FILE}"} if has_file else {}
    way = "with" if has_file else "without"
    told |= _ALL_CONNECTED | ({"LD_LIBRARY_PATH": libraries} if libraries else {})
    argv = ("gpu-topology", "verify", "--output", "json")
    return (
        Step(
            name="verify",
            says=f"the bandwidth of every pair and of all cards together, {way} the topology file",
            argv=argv,
            seconds=300.0,
            environment={**told, "NCCL_DEBUG_FILE": f"{folder}/{NCCL_LOG}"},
            output=REPORT,
            writes=(NCCL_LOG,),
        ),
        Step(
            name=WITHOUT_P2P,
            says=f"the same with {WITHOUT_LINKS}: what a job gets that has lost NVLink",
            argv=argv,
            seconds=300.0,
            environment={**told, **_WITHOUT_LINKS, "NCCL_DEBUG_FILE": f"{folder}/{NCCL_LOG_WITHOUT}"},
            output=REPORT_WITHOUT,
            expected=(0, 1),
            writes=(NCCL_LOG_WITHOUT,),
        ),
    )


def _remapped(gpus: Sequence[Gpu], folder: str) -> Sequence[Step]:
    uuids = [gpu.uuid for gpu in gpus]
    said = "two cards" if len(uuids) > 1 else "the card"
    return (
        _remap(RIGHT, f"the program in the pod, told {said} of this machine", uuids, folder, ExitCode.TRUE),
        _remap(
            WRONG,
            "the same, told a card that is not here: it has to stop",
            [*uuids[:-1], _NOWHERE],
            folder,
            ExitCode.GPU_MISSING,
        ),
    )


def _remap(name: str, says: str, uuids: Sequence[str], folder: str, code: ExitCode) -> Step:
    allocation = "".join(f"{uuid},NVIDIA,1024,100:" for uuid in uuids) + ";"
    return Step(
        name=name,
        says=says,
        argv=("gpu-topology", "remap", "--directory", f"{folder}/remap/{name}"),
        seconds=60.0,
        environment={
            names.REMAP_PROFILE: "exclusive",
            names.REMAP_CONTAINERS: f"main:{len(uuids)}:",
            names.REMAP_NODE_NAME: "this-node",
            names.REMAP_ALLOCATION: allocation,
            names.REMAP_NODE_TOPOLOGY: names.UNKNOWN_TOPOLOGY,
            names.REMAP_REQUIRE_NVLINK: "false",
        },
        output=f"remap/{name}.txt",
        expected=(int(code),),
        writes=tuple(f"remap/{name}/{file}" for file in ("report.txt", "env", "nccl-topo.xml")),
    )


def _trained(count: int, folder: str, python: str, *, has_file: bool) -> Sequence[Step]:
    argv = (python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", f"{folder}/{SCRIPT}")
    told = {"NCCL_TOPO_FILE": f"{folder}/{NCCL_FILE}"}
    return (
        _without(
            _training(
                "training", "training steps of PyTorch FSDP with the topology file", argv, TRAINING, told, folder
            ),
            "" if has_file else NO_FILE,
        ),
        _training("training-plain", "the same without anything of ours", argv, TRAINING_PLAIN, {}, folder),
        _training(
            "training-without-p2p",
            f"the same with {WITHOUT_LINKS}",
            argv,
            TRAINING_WITHOUT,
            _WITHOUT_LINKS,
            folder,
        ),
    )


def _training(name: str, says: str, argv: tuple[str, ...], result: str, told: Mapping[str, str], folder: str) -> Step:
    return Step(
        name=name,
        says=says,
        argv=(*argv, f"{folder}/{result}"),
        seconds=180.0,
        environment=told,
        output=f"training/{name}.txt",
        writes=(result,),
    )

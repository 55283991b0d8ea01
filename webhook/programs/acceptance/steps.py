"""What the run does, as a list that is shown before it begins. No step reads a file that another step did not write."""

from collections.abc import Mapping, Sequence

from webhook.hardware.topology.model import Gpu, NodeTopology
from webhook.programs.acceptance.model import Step
from webhook.words import names

TOPOLOGY, TOPOLOGY_TEXT, NCCL_FILE = "topology/topology.json", "topology/nvidia-smi-topo.txt", "topology/nccl-topo.xml"
NCCL_LOG, NCCL_LOG_WITHOUT = "verify/nccl.log", "verify/nccl-without-p2p.log"
REPORT, REPORT_WITHOUT = "verify/report.json", "verify/report-without-p2p.json"
TRAINING, TRAINING_WITHOUT, TRAINING_PLAIN = "training/as-told.json", "training/without-p2p.json", "training/plain.json"
SCRIPT = "training/fsdp_step.py"
RIGHT, WRONG = "remap-right", "remap-wrong"
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
        _tool("cards", "cards, driver and state, in the words of the driver", "nvidia-smi", "-q"),
        _tool("nvidia-smi-links", "the state of each NVLink", "nvidia-smi", "nvlink", "-s"),
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


def steps_for(node: NodeTopology, folder: str, python: str, libraries: str = "") -> tuple[Step, ...]:
    """What is tried on a machine with these cards.

    Args:
        node: Its topology, with at least one card. With one alone nothing is measured and nothing is trained.
        folder: Of the run, absolute.
        python: The interpreter that has PyTorch.
        libraries: Where the dynamic linker looks for its NCCL, as LD_LIBRARY_PATH; empty: as this program does.
    """
    several = len(node.gpus) > 1
    measured = _measured(folder, libraries) if several else ()
    found = [_links_at_rest("links-before"), *measured, _links_at_rest("links-after")]
    found += _remapped(linked_pair(node) or node.gpus[:1], folder)
    if several:
        found += _trained(len(node.gpus), folder, python)
    return tuple(found)


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


def _measured(folder: str, libraries: str) -> Sequence[Step]:
    told = {"NCCL_TOPO_FILE": f"{folder}/{NCCL_FILE}", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": _SUBSYSTEMS}
    told |= _ALL_CONNECTED | ({"LD_LIBRARY_PATH": libraries} if libraries else {})
    argv = ("gpu-topology", "verify", "--output", "json")
    return (
        Step(
            name="verify",
            says="the bandwidth of every pair and of all cards together, with the topology file",
            argv=argv,
            seconds=300.0,
            environment={**told, "NCCL_DEBUG_FILE": f"{folder}/{NCCL_LOG}"},
            output=REPORT,
            writes=(NCCL_LOG,),
        ),
        Step(
            name="verify-without-p2p",
            says=f"the same with {WITHOUT_LINKS}: what a job gets that has lost NVLink",
            argv=argv,
            seconds=300.0,
            environment={**told, **_WITHOUT_LINKS, "NCCL_DEBUG_FILE": f"{folder}/{NCCL_LOG_WITHOUT}"},
            output=REPORT_WITHOUT,
            writes=(NCCL_LOG_WITHOUT,),
        ),
    )


def _remapped(gpus: Sequence[Gpu], folder: str) -> Sequence[Step]:
    uuids = [gpu.uuid for gpu in gpus]
    said = "two cards" if len(uuids) > 1 else "the card"
    return (
        _remap(RIGHT, f"the program in the pod, told {said} of this machine", uuids, folder),
        _remap(WRONG, "the same, told a card that is not here: it has to stop", [*uuids[:-1], _NOWHERE], folder),
    )


def _remap(name: str, says: str, uuids: Sequence[str], folder: str) -> Step:
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
        writes=tuple(f"remap/{name}/{file}" for file in ("report.txt", "env", "nccl-topo.xml")),
    )


def _trained(count: int, folder: str, python: str) -> Sequence[Step]:
    argv = (python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", f"{folder}/{SCRIPT}")
    told = {"NCCL_TOPO_FILE": f"{folder}/{NCCL_FILE}"}
    return (
        _training("training", "training steps of PyTorch FSDP with the topology file", argv, TRAINING, told, folder),
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

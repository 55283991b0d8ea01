"""The signs that a container exchanges GPU memory with other containers or pods, as disaggregated serving does.

A sign changes no patch, only what is told. Processes of different containers reach each other's GPU memory with CUDA
IPC, for which they share a PID namespace and see each other's GPUs; UCX, NIXL and Mooncake fall back to the network
without an error. The profiles ``pod-peers`` and ``node-peers`` give what it takes.

``hostIPC: true`` alone is no sign: it stands in many manifests only for a larger ``/dev/shm``. With ``hostPID: true``
it is one, because CUDA IPC between pods needs both. Transfers that use no CUDA IPC are no signs: Mooncake over RDMA,
``UCX_TLS`` without ``cuda_ipc``, connectors to disks and to CPU memory.
"""

import enum
from collections.abc import Iterable, Iterator

import msgspec

from webhook.decisions.request.settings import (
    LMCACHE_DEVICES,
    LMCACHE_NIXL,
    LMCACHE_PD,
    MC_IPC,
    MC_MNNVL,
    MC_NVLINK,
    MC_POOL,
    TRTLLM_NIXL,
    TRTLLM_UCX,
)
from webhook.decisions.request.transfer_flags import (
    LMCACHE_SERVER_CONNECTOR,
    MOONCAKE_CONNECTOR,
    NIXL_CONNECTORS,
    Said,
    Transports,
    said_by,
)
from webhook.objects.pod import Container, PodSpec


class Program(enum.StrEnum):
    """The program that exchanges GPU memory."""

    SGLANG = "SGLang"
    VLLM = "vLLM"
    DYNAMO = "Dynamo"
    LMCACHE = "LMCache"
    TENSORRT_LLM = "TensorRT-LLM"
    MOONCAKE = "Mooncake"
    NIXL = "NIXL"
    UCX = "UCX"
    HOST_NAMESPACES = "hostIPC"
    """No program, but the namespaces of the host in which only pods reach each other."""


class Sign(msgspec.Struct, frozen=True):
    """A sign that a container exchanges GPU memory."""

    container: str
    program: Program
    connector: str
    """What carries the memory, as the program calls it."""

    def __str__(self) -> str:
        return f"{self.program} {self.connector}"


def signs(spec: PodSpec, containers: Iterable[Container]) -> tuple[Sign, ...]:
    """Returns the signs of containers with GPUs, in their order; those of one container begin with the clearest.

    Args:
        spec: The spec of the pod.
        containers: Its containers with GPUs.

    Raises:
        MalformedPod: a command or a variable has another type than in a container.
    """
    by_hand = [(Program.HOST_NAMESPACES, "and hostPID")] if spec.host_ipc and spec.host_pid else []
    return tuple(
        Sign(container.name, program, connector)
        for container, said in said_by(containers)
        for program, connector in (*_exchanges(said), *by_hand)
    )


def _exchanges(said: Said) -> Iterator[tuple[Program, str]]:
    if said.has_both_sides:
        return
    is_open = said.transports is not Transports.CLOSED
    found = [*_by_nixl(said)] if is_open else []
    found += _by_connector(said, is_open=is_open)
    if said.switches & {MC_NVLINK, MC_POOL}:
        found.append((Program.MOONCAKE, "nvlink_intra"))
    elif said.switches & {MC_MNNVL, MC_IPC}:
        found.append((Program.MOONCAKE, "nvlink"))
    if said.transports is Transports.NAMED and not said.starts_ranks:
        found.append((Program.UCX, "cuda_ipc"))
    if not found and said.names_nixl and is_open and not said.has_config:
        found.append((Program.NIXL, "UCX"))
    yield from dict.fromkeys(found)


def _by_nixl(said: Said) -> Iterator[tuple[Program, str]]:
    """Yields the transfers with NIXL or UCX that flags and variables ask for."""
    if said.side and said.uses_nixl:
        yield Program.SGLANG, "nixl"
    elif said.side and said.dynamo and not said.has_config:
        yield Program.DYNAMO, "nixl"
    if said.switches & {LMCACHE_NIXL, LMCACHE_PD} and not said.switches & set(LMCACHE_DEVICES):
        yield Program.LMCACHE, "nixl"
    if said.transceiver or said.switches & {TRTLLM_UCX, TRTLLM_NIXL}:
        yield Program.TENSORRT_LLM, "cache transceiver"


def _by_connector(said: Said, *, is_open: bool) -> Iterator[tuple[Program, str]]:
    for connector in said.connectors:
        if connector == LMCACHE_SERVER_CONNECTOR:
            yield Program.LMCACHE, connector
        elif connector == MOONCAKE_CONNECTOR:
            yield Program.MOONCAKE, "nvlink_intra"
        elif is_open or connector not in NIXL_CONNECTORS:
            yield Program.VLLM, connector

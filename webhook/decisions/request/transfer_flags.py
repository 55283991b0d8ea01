"""What a container says of the exchange of GPU memory: the flags, connectors and variables of known programs.

Flags and connectors are searched in commands, arguments and variables whose names end with ``ARGS``. Variables are read
by :mod:`webhook.decisions.request.settings`. Sources, read in November 2026:

- SGLang main, python/sglang/srt/arg_groups/choices.py and srt/disaggregation/utils.py: modes ``null``, ``prefill``,
  ``decode``; transfer backends ``mooncake`` (the default, over RDMA), ``nixl``, ``ascend``, ``fake``, ``mori``.
- vLLM main, vllm/distributed/kv_transfer/kv_connector/factory.py: the connectors. ``SharedStorageConnector``,
  ``ExampleConnector``, ``OffloadingConnector`` and ``LMCacheConnectorV1`` by themselves exchange no GPU memory.
- LMCache, docs of its configuration (``LMCACHE_ENABLE_NIXL``, ``LMCACHE_ENABLE_PD``) and of its multiprocess mode, in
  which a server opens the GPU memory of vLLM with CUDA IPC.
- Dynamo main, components/src/dynamo/vllm/backend_args.py: ``--disaggregation-mode`` and what it was before.
- TensorRT-LLM main, tensorrt_llm/_torch/pyexecutor/kv_cache_transceiver.py: ``cache_transceiver_config.backend``.
- Mooncake main, mooncake-transfer-engine/src/transfer_engine_impl.cpp: ``MC_INTRANODE_NVLINK`` and
  ``MC_FORCE_MNNVL``, and src/transport/nvlink_transport/nvlink_transport.cpp: ``MC_USE_NVLINK_IPC``; without them GPU
  memory goes over RDMA or TCP, for which no profile matters.
"""

import enum
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from webhook.decisions.request.nvlink_switches import lacks_cuda_ipc
from webhook.decisions.request.settings import (
    LMCACHE_DEVICES,
    LMCACHE_NIXL,
    LMCACHE_PD,
    LONGEST,
    LONGEST_OF_ALL,
    MC_IPC,
    MC_MNNVL,
    MC_NVLINK,
    MC_POOL,
    NIXL_NAMES,
    TRTLLM_NIXL,
    TRTLLM_UCX,
    UCX_TLS,
    Texts,
    literals,
    read_texts,
)
from webhook.objects.pod import Container, may_spell

_CONFIG_LENGTH, _CONFIGS, _NODES, _VALUE_LENGTH, _REFERENCES = 4096, 16, 256, 4096, 64
_NEEDLES = (
    *(b"disaggregation", b"transfer", b"_worker", b"-worker", b"UCX_TLS", b"NIXL", b"NVLINK", b"MNNVL"),
    *(b"LMCACHE_", b"_KVCACHE", b"cache_transceiver", b"lmcache"),
)
"""A container whose text has none of these says nothing."""


class Transports(enum.StrEnum):
    """What ``UCX_TLS`` says of CUDA IPC, in its shortest spelling."""

    UNSAID = ""
    NAMED = "cuda_ipc"
    ALLOWED = "all"
    CLOSED = "^cuda_ipc"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a container says of the exchange of GPU memory, without any text of its author."""

    side: str = ""
    """``prefill`` or ``decode``; empty if it is neither, or both."""
    has_both_sides: bool = False
    """Whether both sides run in this container, so that it needs no other."""
    uses_nixl: bool = False
    """Whether SGLang is told to transfer with NIXL."""
    dynamo: str = ""
    """The module of Dynamo that transfers with NIXL unless it is told otherwise."""
    has_config: bool = False
    """Whether vLLM has a configuration of its transfer."""
    connectors: tuple[str, ...] = ()
    """The connectors of vLLM that exchange GPU memory."""
    transceiver: str = ""
    """The backend of TensorRT-LLM's transceiver, if it can use CUDA IPC."""
    transports: Transports = Transports.UNSAID
    switches: frozenset[str] = frozenset()
    """The variables of :data:`SWITCHES` that are on."""
    names_nixl: bool = False
    """Whether a variable for vLLM's NIXL connector is set."""
    starts_ranks: bool = False
    """Whether it starts the ranks of MPI or torch, which use UCX among themselves."""
    is_server: bool = False
    """Whether it is LMCache's server, which opens the GPU memory of its clients and requests no GPU."""


NOTHING_SAID = Said()
MOONCAKE_CONNECTOR, LMCACHE_SERVER_CONNECTOR = "MooncakeConnector", "LMCacheMPConnector"
NIXL_CONNECTORS = frozenset({"NixlConnector", "NixlPullConnector", "NixlPushConnector"})
NCCL_CONNECTORS = frozenset({"P2pNcclConnector", "PyNcclConnector"})


def _is_true(value: str) -> bool:
    return value.lower() in ("true", "1", "yes")


SWITCHES: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        **dict.fromkeys((MC_NVLINK, MC_MNNVL, MC_IPC), lambda value: value not in ("", "0")),
        MC_POOL: lambda value: value == "INTRA_NODE_NVLINK",
        **dict.fromkeys((LMCACHE_NIXL, LMCACHE_PD), _is_true),
        **dict.fromkeys(LMCACHE_DEVICES, lambda value: value == "cpu"),
        **dict.fromkeys((TRTLLM_UCX, TRTLLM_NIXL), lambda value: value == "1"),
    }
)
"""Variables by name: whether a value switches something on."""
_ARGUMENTS = "ARGS"
_LOCAL_HOSTS = frozenset({"", "localhost", "127.0.0.1", "0.0.0.0", "::1"})  # noqa: S104 - compared, never bound

_GAP = r"[=\s\\]{1,64}[\"']?"
_MODE = re.compile(rf"--disaggregation[-_]mode{_GAP}(prefill|decode)(?![\w-])")
_OLD_MODE = re.compile(r"--is-(prefill|decode)-worker(?![\w-])")
_ROLE = re.compile(r"\bkv_(producer|consumer)\b")
_BACKEND = re.compile(rf"--disaggregation[-_]transfer[-_]backend{_GAP}nixl(?![\w-])")
_DYNAMO = re.compile(r"\bdynamo\.(?:vllm|trtllm)\b")
_DYNAMO_CONNECTOR = re.compile(rf"--connector{_GAP}(?!nixl)\w")
_CONFIG = re.compile(rf"--kv[-_]transfer[-_]config(?:\.kv_connector)?{_GAP}")
_CONNECTOR = re.compile(r"kv_connector\\?[\"']\s{0,8}:\s{0,8}\\?[\"'](\w{1,64})")
_WORD = re.compile(r"\w{1,64}")
_TRANSCEIVER = re.compile(
    r"cache_transceiver_config\b[^#]{0,128}?\bbackend\\?[\"']?\s{0,8}:\s{0,8}\\?[\"']?(UCX|NIXL|DEFAULT)\b"
)
_ROUTER = re.compile(r"\btrtllm-serve\s{1,8}disaggregated(?![\w])")
_BRANCH = re.compile(r"(?:^|[\s;])(?:if|case)\s")
_SERVER = re.compile(r"\blmcache(?:\s{1,8}server|\.v1\.multiprocess\.(?:http_)?server)(?![\w.])")
_RANKS = re.compile(r"\b(?:mpirun|mpiexec|horovodrun|torchrun|deepspeed|sshd)\b")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#[^\n]*")
_SHOWN = re.compile(r"(?m)^[ \t]*(?:echo|printf|logger)\b[^\n>]*$")
_REFERENCE = re.compile(r"\$(?:\((\w{1,64})\)|\{(\w{1,64})\}|(\w{1,64}))")


def said_by(containers: Iterable[Container]) -> Iterator[tuple[Container, Said]]:
    """Yields what each container of a pod says of the exchange of GPU memory.

    Raises:
        MalformedPod: a command or a variable has another type than in a container.
    """
    every = [(container, may_spell(_fields(container), *_NEEDLES)) for container in containers]
    read = read_texts(container for container, is_spelled in every if is_spelled)
    room = LONGEST_OF_ALL
    for container, is_spelled in every:
        if not is_spelled:
            yield container, NOTHING_SAID
            continue
        texts = next(read)
        own = _literals(container)
        text = _text(container, own)[:room]
        room -= len(text)
        yield container, _read(_expanded(text, own), {**_names(container), **own, **_values(texts, own)})


def starts_ranks(containers: Iterable[Container]) -> Iterator[bool]:
    """Yields for each container of a pod whether it starts the ranks of MPI or torch.

    Raises:
        MalformedPod: a command or a variable has another type than in a container.
    """
    room = LONGEST_OF_ALL
    for container in containers:
        text = _text(container, _literals(container))[:room]
        room -= len(text)
        yield bool(_RANKS.search(text))


def spelled(container: Container) -> list[str]:
    """Returns words that say the same as the text of a container, without the words of its author.

    Literal variables, all names of variables, and the settings in commands have to be kept beside them.
    """
    if not may_spell(_fields(container), *_NEEDLES):
        return []
    own = _literals(container)
    return list(_spell(_read(_expanded(_text(container, own), own), {})))


def _fields(container: Container) -> tuple[msgspec.Raw, ...]:
    return (container.command_json, container.args_json, container.env_json)


def _names(container: Container) -> dict[str, str]:
    """Returns the variables that say something by their name alone, whatever their value and its source."""
    return {variable.name: "" for variable in container.env or () if variable.name in NIXL_NAMES}


def _literals(container: Container) -> dict[str, str]:
    return {name: value[:_VALUE_LENGTH] for name, value in literals(container).items()}


def _values(texts: Texts, own: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that the program of a container gets by its commands; an unknown value says nothing."""
    return {
        setting.name: setting.value or ""
        for setting in texts.of_program
        if not ((setting.is_default and setting.name in own) or (setting.is_removed and setting.name in NIXL_NAMES))
    }


def _text(container: Container, own: Mapping[str, str]) -> str:
    """Returns command and arguments, as far as they are read.

    Variables whose names end with ``ARGS`` are arguments of images with a program of their own around the server, such
    as ``VLLM_ADDITIONAL_ARGS`` of KServe and llm-d.
    """
    more = (value for name, value in own.items() if name.endswith(_ARGUMENTS))
    return "\n".join((*container.command, *container.arguments, *more))[:LONGEST]


def _expanded(text: str, own: Mapping[str, str]) -> str:
    """Returns a text with the values of literal variables, and without comments and shown text."""
    text = _SHOWN.sub("", _COMMENT.sub("", text))
    expanded = _REFERENCE.sub(lambda found: own.get(found[found.lastindex or 0], found[0]), text, _REFERENCES)
    return expanded[:LONGEST]


def _read(text: str, variables: Mapping[str, str]) -> Said:
    sides = {found[1] for pattern in (_MODE, _OLD_MODE) for found in pattern.finditer(text)}
    sides |= {"prefill" if found[1] == "producer" else "decode" for found in _ROLE.finditer(text)}
    both = (len(sides) > 1 and not _BRANCH.search(text)) or bool(_ROUTER.search(text))
    configs = list(_configs(text))
    dynamo = _DYNAMO.search(text)
    transceiver = _TRANSCEIVER.search(text)
    return Said(
        side="" if both else min(sides, default=""),
        has_both_sides=both,
        uses_nixl=bool(_BACKEND.search(text)),
        dynamo=dynamo[0] if dynamo and not _DYNAMO_CONNECTOR.search(text) else "",
        has_config=bool(configs),
        connectors=tuple(sorted({name for config in configs for name in _connectors(config)})),
        transceiver=transceiver[1] if transceiver else "",
        transports=_transports(variables.get(UCX_TLS, "")),
        switches=frozenset(name for name, is_on in SWITCHES.items() if is_on(variables.get(name, ""))),
        names_nixl=any(name in variables for name in NIXL_NAMES),
        starts_ranks=bool(_RANKS.search(text)),
        is_server=bool(_SERVER.search(text)),
    )


def _transports(value: str) -> Transports:
    if not value or "$" in value:
        return Transports.UNSAID
    if lacks_cuda_ipc(value):
        return Transports.CLOSED
    return Transports.NAMED if {"cuda_ipc", "cuda"} & _parts(value) else Transports.ALLOWED


def _parts(value: str) -> set[str]:
    return set() if value.startswith("^") else {part.strip() for part in value.split(",")}


def _configs(text: str) -> Iterator[str]:
    """Yields the text that begins with each configuration of vLLM's transfer."""
    for number, flag in enumerate(_CONFIG.finditer(text)):
        if number == _CONFIGS:
            return
        yield text[flag.end() : flag.end() + _CONFIG_LENGTH]


def _connectors(config: str) -> Iterator[str]:
    """Yields the connectors of a configuration, perhaps inside others, that exchange GPU memory."""
    if not config.startswith("{"):
        name = _WORD.match(config)
        yield from filter(_exchanges_by_name, [name[0]] if name else [])
        return
    document = _decoded(config)
    if document is None:  # pieced together by a shell
        yield from filter(_exchanges_by_name, _CONNECTOR.findall(config.partition("\n--")[0]))
        return
    waiting: list[Any] = [document]
    for _ in range(_NODES):
        if not waiting:
            return
        node = waiting.pop()
        if isinstance(node, dict):
            if _exchanges(node):
                yield node["kv_connector"]
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _decoded(config: str) -> Any:
    """Returns the JSON at the beginning of a text, also behind backslashes of a shell; ``None`` if there is none."""
    text = config.replace('\\"', '"') if config[1:16].lstrip().startswith("\\") else config
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def _exchanges_by_name(connector: str) -> bool:
    return connector in NIXL_CONNECTORS or connector in NCCL_CONNECTORS


def _exchanges(node: Mapping[str, Any]) -> bool:
    connector, extra = node.get("kv_connector"), node.get("kv_connector_extra_config")
    if not isinstance(connector, str):
        return False
    extra = extra if isinstance(extra, dict) else {}
    if connector in NIXL_CONNECTORS:
        backends = extra.get("backends")
        return not isinstance(backends, list) or "UCX" in backends
    if connector == MOONCAKE_CONNECTOR:
        return extra.get("mooncake_protocol") == "nvlink_intra"
    if connector == LMCACHE_SERVER_CONNECTOR:
        return str(extra.get("lmcache.mp.host", "")).removeprefix("tcp://") not in _LOCAL_HOSTS
    return connector in NCCL_CONNECTORS


_EXTRA = MappingProxyType(
    {
        MOONCAKE_CONNECTOR: {"mooncake_protocol": "nvlink_intra"},
        LMCACHE_SERVER_CONNECTOR: {"lmcache.mp.host": "another"},
    }
)


def _spell(said: Said) -> Iterator[str]:
    """Yields words in which :func:`_read` finds ``said``."""
    for side in ("prefill", "decode") if said.has_both_sides else filter(None, [said.side]):
        yield f"--disaggregation-mode={side}"
    if said.uses_nixl:
        yield "--disaggregation-transfer-backend=nixl"
    if said.dynamo:
        yield said.dynamo
    if said.has_config:
        found = [{"kv_connector": name, "kv_connector_extra_config": _EXTRA.get(name, {})} for name in said.connectors]
        yield f"--kv-transfer-config={json.dumps({'connectors': found})}"
    if said.transceiver:
        yield f"cache_transceiver_config: {{backend: {said.transceiver}}}"
    if said.starts_ranks:
        yield "mpirun"
    if said.is_server:
        yield "lmcache.v1.multiprocess.server"

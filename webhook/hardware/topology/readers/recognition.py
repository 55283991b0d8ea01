"""Reads the topology of a node from any of the texts that tell one."""

from webhook.hardware.topology.document import KIND, MAX_BYTES, format_topology, parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.readers.hami import read_hami
from webhook.hardware.topology.readers.hami_register import looks_like_register
from webhook.hardware.topology.readers.smi import looks_like_smi, read_smi
from webhook.words import names
from webhook.words.errors import FormatError


def read_topology(text: str | bytes, *, node: str, source: str) -> NodeTopology:
    """Recognise what a text is, and read it.

    Args:
        text: A NodeTopology in JSON, what ``nvidia-smi topo -m`` printed (with or without ``nvidia-smi -L``), or the
            value of HAMi's annotation ``hami.io/node-nvidia-register``.
        node: Name of the node, for texts that do not tell it. A NodeTopology keeps its own.
        source: How messages call the text, for example ``file node-1.txt``.

    Raises:
        FormatError: it is none of them, or not in order; it is no UTF-8 or larger than 1 MiB.
    """
    if len(text) > MAX_BYTES:
        raise FormatError(source, expected=f"at most {MAX_BYTES} bytes", found=f"{len(text)} bytes")
    plain = (text if isinstance(text, str) else _decoded(text, source)).removeprefix("\ufeff")
    if plain.lstrip().startswith("{"):
        return parse_topology(plain, source=source)
    if looks_like_smi(plain):
        return _writable(read_smi(plain, node=node, source=source), source)
    if looks_like_register(plain):
        return _writable(read_hami(plain, None, node=node, source=source), source)
    raise FormatError(
        source,
        expected=f"a {KIND} in JSON, the output of nvidia-smi topo -m, or HAMi's annotation {names.HAMI_NODE_REGISTER}",
        found=plain.strip() or "nothing",
    )


def _writable(topology: NodeTopology, source: str) -> NodeTopology:
    """The topology, if it can be read again from its document; the name of the node may come from anywhere."""
    return parse_topology(format_topology(topology), source=source)


def _decoded(text: bytes, source: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        fix = "PowerShell writes UTF-16; save it as UTF-8"
        raise FormatError(source, expected="a text in UTF-8", found=str(error), fix=fix) from None

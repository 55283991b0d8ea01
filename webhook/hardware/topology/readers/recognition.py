"""The topology of a node from a text of any supported form."""

from webhook.hardware.topology.document import KIND, MAX_BYTES, format_topology, parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.hardware.topology.readers.hami import read_hami
from webhook.hardware.topology.readers.hami_register import looks_like_register
from webhook.hardware.topology.readers.smi import looks_like_smi, read_smi
from webhook.words import names
from webhook.words.errors import FormatError


def read_topology(text: str | bytes, *, node: str, source: str) -> NodeTopology:
    """Recognises the form of a text, and reads it.

    Args:
        text: A NodeTopology in JSON, the output of ``nvidia-smi topo -m`` (with or without that of ``nvidia-smi -L``
            and ``nvidia-smi nvlink``), or the value of HAMi's annotation ``hami.io/node-nvidia-register``.
        node: Name of the node, for texts without it. A NodeTopology keeps its own.
        source: The name of the text in messages, for example ``file node-1.txt``.

    Raises:
        FormatError: the text has none of these forms, is invalid in its form, is not UTF-8, or is larger than 1 MiB.
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
    """Returns the topology as it is read back from its document, which also checks the name of the node."""
    return parse_topology(format_topology(topology), source=source)


def _decoded(text: bytes, source: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        fix = "PowerShell writes UTF-16; save it as UTF-8"
        raise FormatError(source, expected="a text in UTF-8", found=str(error), fix=fix) from None

"""The reduction of a cluster's objects for mirrors: few fields, with compressed texts."""

import zlib
from collections.abc import Callable
from hashlib import blake2b
from math import inf
from typing import NamedTuple, TypeVar

import msgspec

from webhook.cluster.state.cache import Document, Form, Limit
from webhook.decisions.configuration import HAMI_RESOURCES
from webhook.objects.lease import is_led, renewed_at
from webhook.objects.pod import Namespace
from webhook.words import names
from webhook.words.errors import FormatError, ManifestError
from webhook.words.nesting import decode_answer
from webhook.words.shape import shape_problem

_T = TypeVar("_T")
MOST_CHARACTERS = 256 * 1024
"""The most characters of a text that is parsed here. All annotations of an object together have so many
(apimachinery pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB); a topology of 16 GPUs has a tenth of it."""
NAMESPACES = Limit(objects=100_000, bytes=32 * 1024 * 1024)
NODES = Limit(objects=20_000, bytes=64 * 1024 * 1024)
TOPOLOGIES = Limit(objects=20_000, bytes=64 * 1024 * 1024)
LEASES = Limit(objects=20_000, bytes=8 * 1024 * 1024)
"""Four times the 5,000 nodes that Kubernetes supports: kubernetes.io, "Considerations for large clusters"."""
PLANNERS = Limit(objects=1, bytes=4096)
LONGEST_LEASE = 300.0
"""The most seconds for which one renewal of the planner's Lease counts, whatever the Lease says. Pods wait as long
for a planner that is gone."""
_NO_GPUS = (None, 0, "0", "")
_NAMESPACE_KEYS = (names.POD_SECURITY_ENFORCE,)


class Packed(NamedTuple):
    """Compressed texts: a topology shrinks to a fifth of its length."""

    digest: bytes
    """The digest of the texts, to compare them without unpacking."""
    data: bytes

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts."""
        return tuple(zlib.decompress(self.data).decode().split("\0"))


class Heartbeat(NamedTuple):
    """A program's last sign of life: the newest renewal of its Lease."""

    renewed: str
    """The time of the renewal, as the Lease has it."""
    lasts: float
    """The seconds for which the renewal counts."""
    seen: float
    """The time of our first sight of it, on our clock that never goes back."""
    age: float
    """The greatest possible age at that time, in seconds."""


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Namespace(msgspec.Struct):
    metadata: _Metadata


class _Data(msgspec.Struct):
    topology: str | None = msgspec.field(default=None, name=names.TOPOLOGY_KEY)


class _ConfigMap(msgspec.Struct):
    data: _Data | None = None


class _HamiAnnotations(msgspec.Struct):
    register: str | None = msgspec.field(default=None, name=names.HAMI_NODE_REGISTER)
    score: str | None = msgspec.field(default=None, name=names.HAMI_NODE_SCORE)


class _Allocatable(msgspec.Struct):
    gpus: str | int | None = msgspec.field(default=None, name=HAMI_RESOURCES.count)


class _NodeStatus(msgspec.Struct):
    allocatable: _Allocatable | None = None


class _NodeMetadata(msgspec.Struct):
    annotations: _HamiAnnotations | None = None


class _Node(msgspec.Struct):
    metadata: _NodeMetadata
    status: _NodeStatus | None = None


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct):
    spec: _LeaseSpec | None = None


_NAMESPACE = msgspec.json.Decoder(_Namespace)
_CONFIG_MAP = msgspec.json.Decoder(_ConfigMap)
_NODE = msgspec.json.Decoder(_Node)
_LEASE = msgspec.json.Decoder(_Lease)
NO_TEXTS = Packed(b"", b"")
"""The texts of a Node that HAMi has not annotated."""
PLAIN = Packed(b"plain", b"")
"""The texts of such a Node that offers GPUs all the same: those of a plain device plugin."""


def read_namespace(document: Document, name: str, before: Namespace | None) -> Namespace:
    """Read our labels and annotations of a namespace, which an administrator sets.

    Returns:
        The earlier value itself, if nothing of that changed, because decisions are remembered by it.

    Raises:
        ManifestError: the document is no namespace.
    """
    metadata = _decode(document, _NAMESPACE, f"namespace {name}").metadata
    found = Namespace(name, _ours(metadata.labels), _ours(metadata.annotations))
    return before if before == found else found


def read_config_map(document: Document, name: str, before: Packed | None) -> Packed:
    """Read the topology that an agent published, as text.

    Raises:
        ManifestError: the document is no ConfigMap.
        FormatError: it has no topology, or a longer one than :data:`MOST_CHARACTERS`.
    """
    data = _decode(document, _CONFIG_MAP, f"ConfigMap {name}").data
    if data is None or data.topology is None:
        raise FormatError(f"ConfigMap {name}: data", expected=names.TOPOLOGY_KEY, found="none of that name")
    _check_length(f"ConfigMap {name}: data {names.TOPOLOGY_KEY}", data.topology)
    return pack(before, data.topology)


def read_node(document: Document, name: str, before: Packed | None) -> Packed:
    """Read HAMi's annotations; :data:`NO_TEXTS` or :data:`PLAIN` if there are none.

    Raises:
        ManifestError: the document is no Node.
        FormatError: an annotation is longer than :data:`MOST_CHARACTERS`.
    """
    node = _decode(document, _NODE, f"Node {name}")
    found = node.metadata.annotations
    if found is None or not found.register:
        offered = node.status.allocatable if node.status else None
        return PLAIN if offered and offered.gpus not in _NO_GPUS else NO_TEXTS
    for key, text in ((names.HAMI_NODE_REGISTER, found.register), (names.HAMI_NODE_SCORE, found.score or "")):
        _check_length(f"Node {name}: annotation {key}", text)
    return pack(before, found.register, found.score or "")


def lease_reader(
    *, clock: Callable[[], float], wall: Callable[[], float], heard: Callable[[], float | None]
) -> Callable[[Document, str, Heartbeat | None], Heartbeat]:
    """Return a reader of Leases that does not rely on the clocks of nodes.

    A renewal under our watch is at most as old as our news of the cluster, whatever the node's clock says. client-go
    judges Leases in the same way (tools/leaderelection, observedTime). The age of the first renewal that we see is only
    known by the node's clock.

    Args:
        clock: A clock in seconds that never goes back.
        wall: The seconds since the epoch.
        heard: The time of the API server's last answer before this Lease, on ``clock``.
    """

    def read(document: Document, name: str, before: Heartbeat | None) -> Heartbeat:
        spec = _decode(document, _LEASE, f"Lease {name}").spec or _LeaseSpec()
        renewed, lasts = spec.renew_time or "", float(max(0, spec.lease_duration_seconds or 0))
        if before and before.renewed == renewed:
            return before if before.lasts == lasts else before._replace(lasts=lasts)
        now, last = clock(), heard()
        at = _seconds(renewed)
        age = inf if at is None else max(0.0, wall() - at)
        if before and at is not None and last is not None:
            age = min(age, max(0.0, now - last))
        return Heartbeat(renewed, lasts, now, age)

    return read


def planner_reader(
    *, clock: Callable[[], float], wall: Callable[[], float], heard: Callable[[], float | None]
) -> Callable[[Document, str, Heartbeat | None], Heartbeat]:
    """Return a reader of the planner's Lease: :func:`lease_reader`, with two differences.

    A renewal under our watch counts as new, as in client-go, so a planner that once renews late does not count as gone.
    If our news is late, pods wait once more for a planner that is gone, for as long as the Lease lasts.

    A leader that stops gives its Lease back: it removes its name and renews the Lease a last time (client-go
    tools/leaderelection, release). Such a renewal lasts for no time, and neither does one that pauses the planner.
    """
    read_any = lease_reader(clock=clock, wall=wall, heard=heard)

    def read(document: Document, name: str, before: Heartbeat | None) -> Heartbeat:
        found = read_any(document, name, before)
        spec = _decode(document, _LEASE, f"Lease {name}").spec
        lasts = min(found.lasts, LONGEST_LEASE) if spec and is_led(spec.holder_identity) else 0.0
        is_seen = before is not None and before.renewed != found.renewed and found.age < inf
        return found._replace(lasts=lasts, age=0.0 if is_seen else found.age)

    return read


def pack(before: Packed | None, *texts: str) -> Packed:
    """Compress the texts. Returns the earlier value itself if it has equal texts.

    Raises:
        FormatError: a text holds NUL, which our JSON never has unescaped.
    """
    text = "\0".join(texts)
    if text.count("\0") != len(texts) - 1:
        raise FormatError("a text", expected="no NUL", found="one")
    plain = text.encode(errors="replace")
    digest = blake2b(plain, digest_size=16).digest()
    return before if before and before.digest == digest else Packed(digest, zlib.compress(plain, 6))


def weigh_namespace(namespace: Namespace) -> int:
    """Return the bytes of its texts."""
    return sum(
        len(key) + len(value) for part in (namespace.labels, namespace.annotations) for key, value in part.items()
    )


def weigh_heartbeat(heartbeat: Heartbeat) -> int:
    """Return the bytes of its text."""
    return len(heartbeat.renewed)


def weigh_packed(packed: Packed) -> int:
    """Return the bytes of the digest and the data."""
    return len(packed.digest) + len(packed.data)


def _check_length(where: str, text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise FormatError(where, expected=f"at most {MOST_CHARACTERS} characters", found=str(len(text)))


def _ours(members: dict[str, str] | None) -> dict[str, str]:
    return {
        key: value for key, value in (members or {}).items() if key.startswith(names.PREFIX) or key in _NAMESPACE_KEYS
    }


def _seconds(text: str) -> float | None:
    renewed = renewed_at({"spec": {"renewTime": text}})
    return renewed.timestamp() if renewed else None


def _decode(document: Document, decoder: msgspec.json.Decoder[_T], source: str) -> _T:
    try:
        return decode_answer(decoder, document)
    except msgspec.DecodeError as error:
        raise ManifestError(f"{source}: {shape_problem(error)}") from None


NAMESPACE_FORM = Form(read_namespace, weigh_namespace, NAMESPACES)
TOPOLOGY_FORM = Form(read_config_map, weigh_packed, TOPOLOGIES)
NODE_FORM = Form(read_node, weigh_packed, NODES)

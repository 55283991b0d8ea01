"""What is kept of the objects of the cluster, and how it is read from them: few fields, the texts compressed."""

import zlib
from collections.abc import Callable
from hashlib import blake2b
from math import inf
from typing import NamedTuple, TypeVar

import msgspec

from webhook.cluster.state.cache import Document, Form, Limit
from webhook.hardware.traffic.document import MOST_CHARACTERS as MOST_TRAFFIC_CHARACTERS
from webhook.objects.lease import is_led, renewed_at
from webhook.objects.pod import Namespace
from webhook.words import names
from webhook.words.errors import FormatError, ManifestError
from webhook.words.nesting import decode_answer
from webhook.words.shape import shape_problem

_T = TypeVar("_T")
MOST_CHARACTERS = 256 * 1024
"""Of a text that is taken apart here. All annotations of an object together have so much (apimachinery pkg/api/
validation/objectmeta.go, TotalAnnotationSizeLimitB); a topology of 16 GPUs has a tenth of it."""
NAMESPACES = Limit(objects=100_000, bytes=32 * 1024 * 1024)
NODES = Limit(objects=20_000, bytes=64 * 1024 * 1024)
TOPOLOGIES = Limit(objects=20_000, bytes=64 * 1024 * 1024)
LEASES = Limit(objects=20_000, bytes=8 * 1024 * 1024)
"""Four times the 5,000 nodes that Kubernetes supports: kubernetes.io, "Considerations for large clusters"."""
PLANNERS = Limit(objects=1, bytes=4096)
LONGEST_LEASE = 300.0
"""Seconds for which one renewal of the planner's Lease counts at most, whatever the Lease says: pods wait as long for a
planner that is no more."""
_NAMESPACE_KEYS = (names.POD_SECURITY_ENFORCE,)


class Packed(NamedTuple):
    """Texts, compressed: a topology has a fifth of its length then."""

    digest: bytes
    """Of the texts, to see without unpacking that they are the same."""
    data: bytes

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts."""
        return tuple(zlib.decompress(self.data).decode().split("\0"))


class Heartbeat(NamedTuple):
    """A program's last sign of life: the newest renewal of its Lease."""

    renewed: str
    """As it stands in the Lease."""
    lasts: float
    """Seconds for which the program vouches with it."""
    seen: float
    """When we saw it, on our clock that never goes back."""
    age: float
    """How old it was then, at most, in seconds."""


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


class _NodeMetadata(msgspec.Struct):
    annotations: _HamiAnnotations | None = None


class _Node(msgspec.Struct):
    metadata: _NodeMetadata


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class _TrafficAnnotation(msgspec.Struct):
    traffic: str | None = msgspec.field(default=None, name=names.TRAFFIC)


class _LeaseMetadata(msgspec.Struct):
    annotations: _TrafficAnnotation | None = None


class _Lease(msgspec.Struct):
    metadata: _LeaseMetadata | None = None
    spec: _LeaseSpec | None = None


_NAMESPACE = msgspec.json.Decoder(_Namespace)
_CONFIG_MAP = msgspec.json.Decoder(_ConfigMap)
_NODE = msgspec.json.Decoder(_Node)
_LEASE = msgspec.json.Decoder(_Lease)
NO_TEXTS = Packed(b"", b"")
"""Of a Node that HAMi has not annotated."""


def read_namespace(document: Document, name: str, before: Namespace | None) -> Namespace:
    """What an administrator said about a namespace, as far as it is ours to read.

    Returns:
        The value from before, if nothing of that changed: decisions are remembered by it.

    Raises:
        ManifestError: it is no namespace.
    """
    metadata = _decode(document, _NAMESPACE, f"namespace {name}").metadata
    found = Namespace(name, _ours(metadata.labels), _ours(metadata.annotations))
    return before if before == found else found


def read_config_map(document: Document, name: str, before: Packed | None) -> Packed:
    """The topology that an agent published, as text.

    Raises:
        ManifestError: it is no ConfigMap.
        FormatError: it has none, or a longer one than :data:`MOST_CHARACTERS`.
    """
    data = _decode(document, _CONFIG_MAP, f"ConfigMap {name}").data
    if data is None or data.topology is None:
        raise FormatError(f"ConfigMap {name}: data", expected=names.TOPOLOGY_KEY, found="none of that name")
    _check_length(f"ConfigMap {name}: data {names.TOPOLOGY_KEY}", data.topology)
    return pack(before, data.topology)


def read_node(document: Document, name: str, before: Packed | None) -> Packed:
    """HAMi's annotations; :data:`NO_TEXTS` without.

    Raises:
        ManifestError: it is no Node.
        FormatError: an annotation is longer than :data:`MOST_CHARACTERS`.
    """
    found = _decode(document, _NODE, f"Node {name}").metadata.annotations
    if found is None or not found.register:
        return NO_TEXTS
    for key, text in ((names.HAMI_NODE_REGISTER, found.register), (names.HAMI_NODE_SCORE, found.score or "")):
        _check_length(f"Node {name}: annotation {key}", text)
    return pack(before, found.register, found.score or "")


def read_traffic(document: Document, name: str, before: Packed | None) -> Packed | None:
    """What an agent says of traffic in the annotation of its Lease.

    Returns:
        None without the annotation, and where it is longer than an agent writes or holds NUL: whether the agent is
        alive does not depend on it.

    Raises:
        ManifestError: it is no Lease.
    """
    metadata = _decode(document, _LEASE, f"Lease {name}").metadata
    text = metadata.annotations.traffic if metadata and metadata.annotations else None
    if not text or len(text) > MOST_TRAFFIC_CHARACTERS or "\0" in text:
        return None
    return pack(before, text)


def lease_reader(
    *, clock: Callable[[], float], wall: Callable[[], float], heard: Callable[[], float | None]
) -> Callable[[Document, str, Heartbeat | None], Heartbeat]:
    """A reader of Leases that does not rely on the clocks of nodes.

    A renewal that we see happen is as old as our news of the cluster at most, whatever the node's clock says: so does
    client-go judge Leases (tools/leaderelection, observedTime). Only of the first that we see nothing else is known
    than its time by the node's clock.

    Args:
        clock: Seconds that never go back.
        wall: Seconds since the epoch.
        heard: When the API server was heard last, on ``clock``; before this Lease.
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
    """A reader of the planner's Lease: :func:`lease_reader`, with two differences.

    A renewal that we see happen is new, as for client-go: a planner that once renews late does not count as gone. If we
    learn of it late ourselves, pods wait once more for a planner that is gone, for as long as the Lease lasts.

    A leader that stops gives its Lease back: it takes its name off and renews it a last time (client-go
    tools/leaderelection, release). Such a renewal lasts for no time, nor does one that pauses the planner.
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
    """The texts; the value from before if it has the same ones.

    Raises:
        FormatError: a text holds NUL, which no JSON of ours does unescaped.
    """
    text = "\0".join(texts)
    if text.count("\0") != len(texts) - 1:
        raise FormatError("a text", expected="no NUL", found="one")
    plain = text.encode(errors="replace")
    digest = blake2b(plain, digest_size=16).digest()
    return before if before and before.digest == digest else Packed(digest, zlib.compress(plain, 6))


def weigh_namespace(namespace: Namespace) -> int:
    """Bytes of its texts."""
    return sum(
        len(key) + len(value) for part in (namespace.labels, namespace.annotations) for key, value in part.items()
    )


def weigh_heartbeat(heartbeat: Heartbeat) -> int:
    """Bytes of its text."""
    return len(heartbeat.renewed)


def weigh_packed(packed: Packed) -> int:
    """Bytes of it."""
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

"""What DRA drivers publish, kept from ResourceSlices so that a device is found by the name that an allocation gives it.

A driver may publish dozens of devices for each GPU, such as all MIG instances that could be made of it. So what is kept
of a slice is compressed, and of a pool only the slices that a node reaches are read, when a device of it is asked for.
"""

import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from webhook.cluster.state.cache import Cache, Document, Limit
from webhook.decisions.claims.slices import Pools, PublishedDevice, SlicePart, slice_part
from webhook.decisions.configuration import ClaimSettings
from webhook.objects.claims import decode_slice
from webhook.words.errors import FormatError

SLICES = Limit(objects=40_000, bytes=64 * 1024 * 1024)
"""Of each driver: eight for each of the 5,000 nodes that Kubernetes supports. A slice has 128 devices at most."""
POOLS_KEPT = 256
"""Pools that were read and are kept: with 500 devices one takes 300 KB."""


class PackedSlice(NamedTuple):
    """What one ResourceSlice says of GPUs, compressed."""

    pool: str
    node: str
    """On which the devices are; empty if more than one node reaches them."""
    digest: bytes
    """Of what it says, to see without unpacking that it is the same."""
    data: bytes

    @property
    def part(self) -> SlicePart:
        """What it says."""
        return _PART.decode(zlib.decompress(self.data))


class DriverSlices:
    """The slices of one driver.

    Args:
        driver: Its name.
        settings: Which drivers publish GPUs.
        tell: Takes a text for the log.
        clock: Seconds that never go back.
        limit: How much is kept.
    """

    def __init__(
        self,
        driver: str,
        settings: ClaimSettings,
        *,
        tell: Callable[[str], None],
        clock: Callable[[], float],
        limit: Limit = SLICES,
    ) -> None:
        self.driver = driver
        self.cache = Cache[PackedSlice](
            f"resourceslices/{driver}",
            _reader(driver, settings),
            _weigh,
            limit=limit,
            tell=tell,
            clock=clock,
            changed=self._changed,
        )
        self._names: dict[str, dict[str, set[str]]] = {}
        """Of slices, by pool and by node."""
        self._read: OrderedDict[tuple[str, tuple[str, ...]], Pools] = OrderedDict()
        """Pools by the nodes whose slices were read, until a slice of them changes."""

    def pool(self, pool: str, node: str) -> Pools:
        """The devices of a pool that a node reaches; of all nodes if it is empty."""
        of_nodes = self._names.get(pool, {})
        # Only what is published is kept: the node of a forged Binding may be any text, of any length.
        places = tuple(place for place in ("", node) if place in of_nodes) if node else tuple(of_nodes)
        if not places:
            return _NO_POOLS
        key = pool, places
        found = self._read.pop(key, None) or Pools(self._parts(of_nodes, places))
        self._read[key] = found
        if len(self._read) > POOLS_KEPT:
            self._read.popitem(last=False)
        return found

    def _parts(self, of_nodes: Mapping[str, Iterable[str]], places: Iterable[str]) -> Iterable[SlicePart]:
        for place in places:
            for name in of_nodes[place]:
                if packed := self.cache.get(name):
                    yield packed.part

    def _changed(self, name: str, before: PackedSlice | None, after: PackedSlice | None) -> None:
        pools = {packed.pool for packed in (before, after) if packed}
        for key in [key for key in self._read if key[0] in pools]:
            del self._read[key]
        if before:
            self._forget(name, before)
        if after:
            self._names.setdefault(after.pool, {}).setdefault(after.node, set()).add(name)

    def _forget(self, name: str, packed: PackedSlice) -> None:
        of_nodes = self._names[packed.pool]
        of_nodes[packed.node].discard(name)
        if not of_nodes[packed.node]:
            del of_nodes[packed.node]
        if not of_nodes:
            del self._names[packed.pool]


class MirroredPools(Pools):
    """All devices that are in the mirrors now.

    A slice of another node has no say in what a node reaches: not every slice with the name of a pool is of that pool.

    Args:
        drivers: Their slices, by the names of the drivers.
    """

    def __init__(self, drivers: Mapping[str, DriverSlices]) -> None:
        super().__init__()
        self._drivers = drivers

    def device(self, driver: str, pool: str, name: str, *, node: str = "") -> PublishedDevice:
        """The device of this name; :meth:`Pools.device`.

        Raises:
            MissingDevice: it is not published, or not all of its pool is.
        """
        slices = self._drivers.get(driver)
        if slices is None:
            return super().device(driver, pool, name, node=node)
        return slices.pool(pool, node).device(driver, pool, name, node=node)


def _reader(driver: str, settings: ClaimSettings) -> Callable[[Document, str, PackedSlice | None], PackedSlice]:
    def read(document: Document, name: str, before: PackedSlice | None) -> PackedSlice:
        """What a ResourceSlice says; the value from before if it says the same.

        Raises:
            FormatError: it is none of this driver.
        """
        source = f"ResourceSlice {name}"
        published = decode_slice(bytes(document), source)
        part = slice_part(published, settings)
        if part is None or part.driver != driver:
            raise FormatError(f"{source}: spec.driver", expected=driver, found=published.spec.driver)
        try:
            plain = _ENCODER.encode(part)
        except OverflowError:
            raise FormatError(source, expected="numbers of 64 bits", found="a greater one") from None
        digest = blake2b(plain, digest_size=16).digest()
        if before and before.digest == digest:
            return before
        return PackedSlice(part.pool, part.node, digest, zlib.compress(plain, 6))

    return read


def _weigh(packed: PackedSlice) -> int:
    return len(packed.pool) + len(packed.node) + len(packed.digest) + len(packed.data)


_NO_POOLS = Pools()
_ENCODER = msgspec.msgpack.Encoder()
_PART = msgspec.msgpack.Decoder(SlicePart)

"""The publications of DRA drivers: a mirror of ResourceSlices that finds a device by its name in an allocation.

A driver may publish dozens of devices for each GPU, such as all possible MIG instances. So the kept part of a slice is
compressed. Of a pool only the slices that a node reaches are read, when a device of the pool is requested.
"""

import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from webhook.cluster.state.cache import Cache, Document, Form, Limit, Share
from webhook.decisions.claims.slices import Pools, PublishedDevice, SlicePart, slice_part
from webhook.decisions.configuration import ClaimSettings
from webhook.objects.claims import decode_slice
from webhook.words.errors import FormatError

SLICES = Limit(objects=40_000, bytes=64 * 1024 * 1024)
"""The limit for each driver: eight slices for each of the 5,000 nodes that Kubernetes supports. A slice has 128 devices
at most."""
OF_NODE = Limit(objects=64, bytes=1024 * 1024)
"""The limit for the slices of one node, or of one pool whose slices name no node. The token of a node's driver may
write as many as it likes, and they must not take the room of other nodes. A driver needs at most one for each of 16
GPUs, and twice as many while it publishes them anew."""
POOLS_KEPT = 256
"""The number of decoded pools that are kept: one with 500 devices takes 300 KB."""


class PackedSlice(NamedTuple):
    """The facts about GPUs in one ResourceSlice, compressed."""

    pool: str
    node: str
    """The node of the devices; empty if more than one node reaches them."""
    digest: bytes
    """The digest of the facts, to compare them without unpacking."""
    data: bytes

    @property
    def part(self) -> SlicePart:
        """The unpacked facts."""
        return _PART.decode(zlib.decompress(self.data))


class DriverSlices:
    """The ResourceSlices of one driver.

    Args:
        driver: The name of the driver.
        settings: The settings that name the drivers of GPUs.
        tell: A function that takes a text for the log.
        clock: A clock in seconds that never goes back.
        limit: The capacity.
        of_node: The capacity for the slices of one node.
    """

    def __init__(
        self,
        driver: str,
        settings: ClaimSettings,
        *,
        tell: Callable[[str], None],
        clock: Callable[[], float],
        limit: Limit = SLICES,
        of_node: Limit = OF_NODE,
    ) -> None:
        self.driver = driver
        self.cache = Cache[PackedSlice](
            f"resourceslices/{driver}",
            Form(_reader(driver, settings), _weigh, limit, Share(_owner, of_node)),
            tell=tell,
            clock=clock,
            changed=self._changed,
        )
        self._names: dict[str, dict[str, set[str]]] = {}
        """The names of slices, by pool and by node."""
        self._read: OrderedDict[tuple[str, tuple[str, ...]], Pools] = OrderedDict()
        """The decoded pools by name and nodes, until one of their slices changes."""

    def pool(self, pool: str, node: str) -> Pools:
        """Return the devices of a pool that count for a node; those of all nodes if ``node`` is empty."""
        of_nodes = self._names.get(pool, {})
        # Only published places are keys, because the node of a forged Binding may be any text, of any length.
        places = tuple(place for place in (node, "") if place in of_nodes)[:1] if node else tuple(of_nodes)
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

    A slice of another node does not count for a node: not every slice with the name of a pool is of that pool.

    Args:
        drivers: The slices, by the names of the drivers.
    """

    def __init__(self, drivers: Mapping[str, DriverSlices]) -> None:
        super().__init__()
        self._drivers = drivers

    def device(self, driver: str, pool: str, name: str, *, node: str = "") -> PublishedDevice:
        """Return the device of this name; :meth:`Pools.device`.

        Raises:
            MissingDevice: the device is not published, or its pool is not complete.
        """
        slices = self._drivers.get(driver)
        if slices is None:
            return super().device(driver, pool, name, node=node)
        return slices.pool(pool, node).device(driver, pool, name, node=node)

    def uses_partitions(self, driver: str, pool: str, *, node: str = "") -> bool:
        """Return whether the driver names partitions for a pool; :meth:`Pools.uses_partitions`."""
        slices = self._drivers.get(driver)
        if slices is None:
            return super().uses_partitions(driver, pool, node=node)
        return slices.pool(pool, node).uses_partitions(driver, pool, node=node)


def _reader(driver: str, settings: ClaimSettings) -> Callable[[Document, str, PackedSlice | None], PackedSlice]:
    def read(document: Document, name: str, before: PackedSlice | None) -> PackedSlice:
        """Return the facts in a ResourceSlice. Equal ones are the earlier value itself.

        Raises:
            FormatError: the slice is not one of this driver.
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


def _owner(packed: PackedSlice) -> str:
    return f"node {packed.node}" if packed.node else f"pool {packed.pool}"


def _weigh(packed: PackedSlice) -> int:
    return len(packed.pool) + len(packed.node) + len(packed.digest) + len(packed.data)


_NO_POOLS = Pools()
_ENCODER = msgspec.msgpack.Encoder()
_PART = msgspec.msgpack.Decoder(SlicePart)

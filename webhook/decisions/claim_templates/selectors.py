"""The selectors of a request in CEL: by product, by product and PCI bus ids, or by UUIDs.

CEL sees the attributes of a device and not its node (k8s.io/dynamic-resource-allocation cel/compile.go). An attribute
that a device does not have stops the scheduling of the pod. So each expression tests that an attribute exists before it
uses the attribute.
"""

from dataclasses import dataclass

from webhook.hardware.topology.model import HAMI, Gpu, NodeTopology

MAX_BYTES = 10_240
"""The most bytes of one expression: k8s.io/api resource/v1, CELSelectorExpressionMaxLength."""
_OWN = "device.attributes['gpu.nvidia.com']"
_STANDARD = "device.attributes['resource.kubernetes.io']"
OUTSIDE_PARTITIONS = f"!('gpuModuleID' in {_OWN})"
"""GPUs whose driver says nothing of partitions of the NVSwitches."""


@dataclass(frozen=True, slots=True)
class ByProduct:
    """All whole GPUs of a product, limited to the cards with certain bus ids if there are any."""

    product: str
    bus_ids: tuple[str, ...] = ()
    """Bus ids in lower case, with a domain of four digits, as the driver publishes them."""
    without: tuple[str, ...] = ()
    """UUIDs of cards that the selector leaves out."""

    def may_match(self, topology: NodeTopology, gpu: Gpu) -> bool:
        """Returns whether the selector can match a GPU of a node. Attributes that the topology lacks may match."""
        named = (
            not gpu.name or self.product == gpu.name or (topology.source == HAMI and self.product in gpu.name)
        )  # HAMi writes the maker's name before the product's
        return named and (not self.bus_ids or not gpu.pci_bus_id or gpu.pci_bus_id in self.bus_ids)

    @property
    def expression(self) -> str:
        """The expression in CEL, one condition a line."""
        conditions = [
            f"'type' in {_OWN} && {_OWN}.type == 'gpu'",
            f"'productName' in {_OWN} && {_OWN}.productName == {literal(self.product)}",
        ]
        if self.bus_ids:
            listed = ", ".join(map(literal, self.bus_ids))
            conditions.append(f"'pciBusID' in {_STANDARD} && {_STANDARD}.pciBusID in [{listed}]")
        if self.without:
            listed = ", ".join(map(literal, self.without))
            conditions.append(f"'uuid' in {_OWN} && !({_OWN}.uuid in [{listed}])")
        return " &&\n".join(conditions)


@dataclass(frozen=True, slots=True)
class ByUuid:
    """Single cards, on any node."""

    uuids: tuple[str, ...]

    @property
    def expression(self) -> str:
        """The expression in CEL."""
        return f"'uuid' in {_OWN} && {_OWN}.uuid in [{', '.join(map(literal, self.uuids))}]"


Selector = ByProduct | ByUuid


def literal(text: str) -> str:
    """Returns ``text`` as a string of CEL, in ASCII."""
    return f"'{''.join(map(_escaped, text))}'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isascii() and character.isprintable():
        return character
    return f"\\U{ord(character):08x}"

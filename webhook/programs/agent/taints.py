"""The DeviceTaintRules that keep claims from ill GPUs, and the recognition of the agent's own rules.

A rule taints the devices that its selector selects, and an empty selector selects every device of the cluster
(k8s.io/api resource/v1, DeviceTaintSelector). So each rule is made of a
:class:`webhook.programs.agent.devices.DeviceId`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.devices import Device, DeviceId, NodeDevices, Pool, as_object, normal_bus_id, text_in
from webhook.programs.agent.illness import Cause
from webhook.words import names
from webhook.words.node_names import node_label, taint_rule_name

KIND = "DeviceTaintRule"
EFFECT = "NoSchedule"
"""The effect of new rules: running pods stay."""
MOST_RULES = 256
"""The most rules of one node. A node has some tens of devices, so more would be a mistake that fills the cluster."""
KEYS: Mapping[Cause, str] = {Cause.LINKS: names.NVLINK_DOWN, Cause.LOST: names.GPU_LOST}

Object = dict[str, Any]


class Taint(NamedTuple):
    """The part of a taint that the agent decides. People may change the third part, the effect."""

    key: str
    value: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IllGpu:
    """A GPU that claims should not get."""

    uuid: str
    cause: Cause
    bus_id: str = ""
    links_down: int | None = None
    """The number of links that are down; None if they cannot be counted now."""

    def taint(self, old: Taint | None = None) -> Taint:
        """Returns the taint of the GPU's devices. If links cannot be counted now, the number in ``old`` stays."""
        key = KEYS[self.cause]
        if self.cause is Cause.LOST:
            return Taint(key, "")
        if self.links_down is None:
            return old if old and old.key == key else Taint(key, "")
        return Taint(key, str(self.links_down))


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnRule:
    """A rule of this agent in the cluster."""

    name: str
    uid: str
    version: str
    device: DeviceId
    taint: Taint
    uuid: str
    """The UUID of the GPU for which the rule was made; empty if its annotation was removed."""

    @property
    def cause(self) -> Cause:
        """The cause for which the rule was made."""
        return Cause.LOST if self.taint.key == names.GPU_LOST else Cause.LINKS


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A change of a rule's taint."""

    rule: OwnRule
    patch: Object
    """A JSON merge patch. It requires the version that was read, and does not change the effect."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaintChange:
    """The changes of the rules of a node."""

    create: tuple[Object, ...] = ()
    change: tuple[RuleChange, ...] = ()
    delete: tuple[OwnRule, ...] = ()
    unmatched: tuple[str, ...] = ()
    """UUIDs of ill GPUs without a known device."""
    left_out: int = 0
    """The number of rules over :data:`MOST_RULES`."""


def ill_with_links(ill: Mapping[str, Cause], *looks: NodeTopology | None) -> tuple[IllGpu, ...]:
    """Returns the ill GPUs with the values of their taints.

    Args:
        ill: The causes by UUID.
        looks: Topologies that may have the GPUs, the newest first. Only the newest gives the number of links down.
    """
    known = [{gpu.uuid: gpu for gpu in look.gpus} for look in looks if look]
    lost = {gpu.uuid: gpu for look in looks if look for gpu in look.lost if gpu.uuid}
    found = []
    for uuid, cause in ill.items():
        newest = known[0].get(uuid) if known else None
        gpu = next((gpus[uuid] for gpus in known if uuid in gpus), None) or lost.get(uuid)
        countable = newest if newest and not newest.links_problem else None
        down = sum(link.count - link.active for link in countable.nvlinks) if countable else None
        found.append(
            IllGpu(uuid=uuid, cause=cause, bus_id=normal_bus_id(gpu.pci_bus_id) if gpu else "", links_down=down)
        )
    return tuple(found)


def own_rules(rules: Iterable[Mapping[str, Any]], node: str, devices: NodeDevices) -> tuple[OwnRule, ...]:
    """Returns the rules that this agent made, among those with its label.

    The label alone is no proof, because every user who may create such rules may write it. So a rule counts only if
    its name is the one that this agent gives to a rule for this device, its pool is one of this node, and its taint has
    a key of the agent. A rule whose selector or key a person changed belongs to that person.
    """
    pools = {pool.name for pool in devices.pools} | {node}
    found = [_own_rule(rule) for rule in rules if _label(rule) == node_label(node)]
    return tuple(
        rule
        for rule in found
        if rule and rule.device.pool in pools and rule.name == taint_rule_name(node, *rule.device)
    )


def known_causes(rules: Iterable[OwnRule], devices: NodeDevices) -> dict[str, Cause]:
    """Returns the causes of the rules by UUID of the GPU. The UUID of a rule without one is that of its device."""
    uuids = {device.id: device.uuid for device in devices.devices if not device.is_instance}
    causes = {(rule.uuid or uuids.get(rule.device, "")): rule.cause for rule in rules}
    return {uuid: cause for uuid, cause in causes.items() if uuid}


def taint_change(
    ill: Iterable[IllGpu], rules: Iterable[OwnRule], devices: NodeDevices, node: Mapping[str, Any]
) -> TaintChange:
    """Returns the changes after which exactly the devices of ill GPUs are tainted.

    Args:
        ill: The ill GPUs of the node.
        rules: The rules of this agent.
        devices: The devices of the node.
        node: The Node, as the API server sent it. It owns the rules, so they are deleted with it.
    """
    ill, own = tuple(ill), {rule.device: rule for rule in rules}
    wanted = _wanted(ill, devices)
    uuids = {gpu.uuid for gpu in ill}
    changes = [RuleChange(own[device], _patch(own[device], gpu)) for device, gpu in wanted.items() if device in own]
    new = [device for device in wanted if device not in own]
    kept = {device for device, rule in own.items() if device in wanted or _may_be_ill(rule, uuids, devices)}
    room = max(0, MOST_RULES - len(kept))
    matched = {gpu.uuid for gpu in wanted.values()} | {own[device].uuid for device in kept}
    return TaintChange(
        create=tuple(rule_manifest(device, wanted[device], node) for device in new[:room]),
        change=tuple(change for change in changes if change.patch),
        delete=tuple(rule for device, rule in own.items() if device not in kept),
        unmatched=tuple(gpu.uuid for gpu in ill if gpu.uuid not in matched),
        left_out=len(new[room:]),
    )


def rule_manifest(device: DeviceId, gpu: IllGpu, node: Mapping[str, Any]) -> Object:
    """Returns the manifest of a new rule, without its ``apiVersion``.

    Raises:
        ValueError: a part of the device is empty, so that the rule would taint more than one device.
    """
    if not all(device):
        raise ValueError(f"expected driver, pool and name of a device, found {device}")
    metadata, (key, value) = node["metadata"], gpu.taint()
    name = metadata["name"]
    return {
        "kind": KIND,
        "metadata": {
            "name": taint_rule_name(name, *device),
            "labels": {names.NODE: node_label(name)},
            "annotations": {names.GPU_UUID: gpu.uuid},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": metadata["uid"]}],
        },
        "spec": {
            "deviceSelector": {"driver": device.driver, "pool": device.pool, "device": device.device},
            "taint": {"key": key, "value": value, "effect": EFFECT},
        },
    }


def _wanted(ill: Iterable[IllGpu], devices: NodeDevices) -> dict[DeviceId, IllGpu]:
    """Returns the devices to taint, each with its GPU."""
    by_uuid, by_bus_id = {gpu.uuid: gpu for gpu in ill}, {gpu.bus_id: gpu for gpu in ill if gpu.bus_id}
    wanted: dict[DeviceId, IllGpu] = {}
    for device in devices.devices:
        gpu = by_uuid.get(device.parent) or _gpu_of(device, by_uuid, by_bus_id)
        if gpu and not (device.is_instance and gpu.cause is Cause.LINKS):
            wanted[device.id] = gpu
    return wanted


def _gpu_of(device: Device, by_uuid: Mapping[str, IllGpu], by_bus_id: Mapping[str, IllGpu]) -> IllGpu | None:
    """Returns the ill GPU of a device, by UUID.

    Only a device without a UUID is found by its bus id, because another card may be in that place by now.
    """
    if device.uuid or device.parent:
        return by_uuid.get(device.uuid)
    return by_bus_id.get(device.bus_id)


def _may_be_ill(rule: OwnRule, ill: set[str], devices: NodeDevices) -> bool:
    """Returns whether a rule's device may still be an ill GPU, because its pool is incomplete or gone for now."""
    return rule.uuid in ill and Pool(rule.device.driver, rule.device.pool) not in devices.complete


def _patch(rule: OwnRule, gpu: IllGpu) -> Object:
    """Returns the patch of a rule, empty if the rule is right."""
    taint = gpu.taint(rule.taint)
    if taint == rule.taint and rule.uuid == gpu.uuid:
        return {}
    return {
        "metadata": {"resourceVersion": rule.version, "annotations": {names.GPU_UUID: gpu.uuid}},
        "spec": {"taint": {"key": taint.key, "value": taint.value}},
    }


def _own_rule(rule: Mapping[str, Any]) -> OwnRule | None:
    metadata, spec = as_object(rule.get("metadata")), as_object(rule.get("spec"))
    selector, taint = as_object(spec.get("deviceSelector")), as_object(spec.get("taint"))
    device = DeviceId(text_in(selector, "driver"), text_in(selector, "pool"), text_in(selector, "device"))
    key = text_in(taint, "key")
    if not all(device) or key not in KEYS.values():
        return None
    return OwnRule(
        name=text_in(metadata, "name"),
        uid=text_in(metadata, "uid"),
        version=text_in(metadata, "resourceVersion"),
        device=device,
        taint=Taint(key, text_in(taint, "value")),
        uuid=text_in(as_object(metadata.get("annotations")), names.GPU_UUID),
    )


def _label(rule: Mapping[str, Any]) -> str:
    return text_in(as_object(as_object(rule.get("metadata")).get("labels")), names.NODE)

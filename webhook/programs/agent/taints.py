"""Which DeviceTaintRules keep claims from ill GPUs, and which of those that are there are the agent's own.

A rule taints what its selector names, and an empty selector names every device of the cluster (k8s.io/api
resource/v1, DeviceTaintSelector). So a rule is only ever made of a :class:`webhook.programs.agent.devices.DeviceId`.
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
"""Of new rules: running pods stay."""
MOST_RULES = 256
"""Of one node. A node has some tens of devices; more is a mistake, and rules are objects of the whole cluster."""
KEYS: Mapping[Cause, str] = {Cause.LINKS: names.NVLINK_DOWN, Cause.LOST: names.GPU_LOST}

Object = dict[str, Any]


class Taint(NamedTuple):
    """What the agent decides of a taint; the effect is what people may change."""

    key: str
    value: str


@dataclass(frozen=True, kw_only=True, slots=True)
class IllGpu:
    """A GPU that claims should not get."""

    uuid: str
    cause: Cause
    bus_id: str = ""
    links_down: int | None = None
    """None if they cannot be counted now."""

    def taint(self, old: Taint | None = None) -> Taint:
        """The taint of its devices; what cannot be counted now is as in ``old``."""
        key = KEYS[self.cause]
        if self.cause is Cause.LOST:
            return Taint(key, "")
        if self.links_down is None:
            return old if old and old.key == key else Taint(key, "")
        return Taint(key, str(self.links_down))


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnRule:
    """A rule of this agent, as it is in the cluster."""

    name: str
    uid: str
    version: str
    device: DeviceId
    taint: Taint
    uuid: str
    """Of the GPU for which it was made; empty if it no longer says so."""

    @property
    def cause(self) -> Cause:
        """Why it was made."""
        return Cause.LOST if self.taint.key == names.GPU_LOST else Cause.LINKS


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A rule with another taint."""

    rule: OwnRule
    patch: Object
    """JSON merge patch. It insists on the version that was read, and leaves the effect alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaintChange:
    """What to do with the rules of a node."""

    create: tuple[Object, ...] = ()
    change: tuple[RuleChange, ...] = ()
    delete: tuple[OwnRule, ...] = ()
    unmatched: tuple[str, ...] = ()
    """UUIDs of ill GPUs that no device is known to be."""
    left_out: int = 0
    """Rules beyond the bound."""


def ill_with_links(ill: Mapping[str, Cause], *looks: NodeTopology | None) -> tuple[IllGpu, ...]:
    """Ill GPUs with what their taints say of them.

    Args:
        ill: By UUID.
        looks: Topologies that may know them, the newest first; only that one tells how many links are down.
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
    """The rules that this agent made, among those with its label.

    The label alone proves nothing: whoever may create such rules may write it. So a rule counts only if its name is the
    one that this agent gives to a rule for this device, the pool is one of this node, and the taint is one of the
    agent's. A rule whose selector or key a person changed is that person's.
    """
    pools = {pool.name for pool in devices.pools} | {node}
    found = [_own_rule(rule) for rule in rules if _label(rule) == node_label(node)]
    return tuple(
        rule
        for rule in found
        if rule and rule.device.pool in pools and rule.name == taint_rule_name(node, *rule.device)
    )


def known_causes(rules: Iterable[OwnRule], devices: NodeDevices) -> dict[str, Cause]:
    """Which GPUs were ill according to the rules, by UUID. Where a rule no longer says it, its device does."""
    uuids = {device.id: device.uuid for device in devices.devices if not device.is_instance}
    causes = {(rule.uuid or uuids.get(rule.device, "")): rule.cause for rule in rules}
    return {uuid: cause for uuid, cause in causes.items() if uuid}


def taint_change(
    ill: Iterable[IllGpu], rules: Iterable[OwnRule], devices: NodeDevices, node: Mapping[str, Any]
) -> TaintChange:
    """What to do so that exactly the devices of ill GPUs are tainted.

    Args:
        ill: GPUs of the node.
        rules: Of this agent.
        devices: Of the node.
        node: The Node, as the API server sent it. It owns the rules, which go when it goes.
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
    """A new rule, without its ``apiVersion``.

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
    """The devices to be tainted, each with its GPU."""
    by_uuid, by_bus_id = {gpu.uuid: gpu for gpu in ill}, {gpu.bus_id: gpu for gpu in ill if gpu.bus_id}
    wanted: dict[DeviceId, IllGpu] = {}
    for device in devices.devices:
        gpu = by_uuid.get(device.parent) or _gpu_of(device, by_uuid, by_bus_id)
        if gpu and not (device.is_instance and gpu.cause is Cause.LINKS):
            wanted[device.id] = gpu
    return wanted


def _gpu_of(device: Device, by_uuid: Mapping[str, IllGpu], by_bus_id: Mapping[str, IllGpu]) -> IllGpu | None:
    """By UUID; only a device that does not tell one is looked up by its place, where another card may be by now."""
    if device.uuid or device.parent:
        return by_uuid.get(device.uuid)
    return by_bus_id.get(device.bus_id)


def _may_be_ill(rule: OwnRule, ill: set[str], devices: NodeDevices) -> bool:
    """Whether the device of a rule may still be an ill GPU, while its driver publishes anew or is away."""
    return rule.uuid in ill and Pool(rule.device.driver, rule.device.pool) not in devices.complete


def _patch(rule: OwnRule, gpu: IllGpu) -> Object:
    """What to change at a rule; empty if it is right."""
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

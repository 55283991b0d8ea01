"""The reconciliation of the DeviceTaintRules of this node with its ill GPUs, with few requests.

For a node without ill GPUs and without rules, no request is sent after the first round.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from webhook.cluster.api.errors import ApiError, ApiRefused, Conflict, Malformed
from webhook.cluster.api.verbs import MOST_PER_PAGE, Api, PatchForm
from webhook.cluster.kinds import SLICE, TAINT_RULES, Kind
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.devices import node_devices
from webhook.programs.agent.illness import Cause, ill_gpus
from webhook.programs.agent.log import AgentLog
from webhook.programs.agent.look import Look, is_readable
from webhook.programs.agent.publication import Object
from webhook.programs.agent.status import TaintStatus
from webhook.programs.agent.taints import (
    MOST_RULES,
    IllGpu,
    OwnRule,
    TaintChange,
    ill_with_links,
    known_causes,
    own_rules,
    taint_change,
)
from webhook.words import names
from webhook.words.catalogue import nodes
from webhook.words.catalogue.entry import Message
from webhook.words.node_names import node_label

Wrote = Callable[[str, str, str], None]
"""The callback that receives kind, name and text of each written object."""


@dataclass(slots=True)
class Done:
    """The outcome of a round. It is filled during the round, so that it is right after a failure too."""

    tainted: list[str] = field(default_factory=list)
    """UUIDs of GPUs for which a rule was created."""
    untainted: list[str] = field(default_factory=list)
    """UUIDs of GPUs for which a rule was deleted, or else names of devices."""
    refused: ApiError | None = None
    """The error that ended the round early."""


class Tainting:
    """The writer of the agent's rules, with its memory between two rounds."""

    def __init__(self, node: str, log: AgentLog, wrote: Wrote) -> None:
        self._node = node
        self._log = log
        self._wrote = wrote
        self._rules: Kind | None = None
        """The kind of the rules in the served version; None if no served version is known."""
        self._known: dict[str, Cause] = {}
        self._settled = False
        """Whether no GPU is ill and the agent has no rule, or the API server has no DeviceTaintRules."""
        self._told: tuple[str, ...] = ()
        self.status: TaintStatus | None = None

    async def round(self, api: Api, node: Object, look: Look, before: NodeTopology | None) -> Done:
        """Makes the rules match the newest look.

        Args:
            api: The API server.
            node: The Node, as the API server sent it.
            look: The newest look.
            before: The last topology with GPUs; None if unknown.

        Raises:
            ApiServerAway: the API server does not answer; a later round may succeed.
        """
        done = Done()
        if not is_readable(look.topology):
            return done
        self._known = ill_gpus(look, before, known=self._known, kept=self._known)
        if self._settled and not self._known:
            self.status = replace(self.status, unmatched=0) if self.status else None
            return done
        try:
            await self._write(api, node, look, before, done)
        except (ApiRefused, Conflict, Malformed) as error:
            self._rules, self._settled = None, False
            done.refused = error
        return done

    async def _write(self, api: Api, node: Object, look: Look, before: NodeTopology | None, done: Done) -> None:
        self._rules = self._rules or await api.first_served(TAINT_RULES)
        if not self._rules:
            self.status, self._settled = TaintStatus(served=False, unmatched=len(self._known)), True
            self._tell([nodes.TAINTS_NOT_SERVED.say()])
            return
        label = f"{names.NODE}={node_label(self._node)}"
        of_node = self._rules.having(labels=label)
        listed = await api.objects(of_node, most=MOST_PER_PAGE, what=f"list DeviceTaintRules with {label}")
        needed = bool(listed or self._known)
        devices = node_devices(await self._slices(api) if needed else (), self._node)
        rules = own_rules(listed, self._node, devices)
        known = self._known | known_causes(rules, devices)
        kept = {rule.uuid for rule in rules} | {device.uuid for device in devices.devices}
        if devices.pools != devices.complete:
            kept |= known.keys()
        self._known = ill_gpus(look, before, known=known, kept=kept)
        ill = ill_with_links(self._known, look.topology, before)
        change = taint_change(ill, rules, devices, node)
        taken = await self._apply(api, self._rules, change, done)
        self._conclude(ill, rules, change, taken)

    async def _slices(self, api: Api) -> Sequence[Object]:
        slices = SLICE.having(fields=f"spec.nodeName={self._node}")
        return await api.objects(slices, most=MOST_PER_PAGE, what=f"list ResourceSlices of node {self._node}")

    async def _apply(self, api: Api, rules: Kind, change: TaintChange, done: Done) -> list[Object]:
        """Applies a change; returns the new rules whose names are taken by other rules."""
        taken = []
        for rule in change.delete:
            await api.delete(rules, rule.name, uid=rule.uid, resource_version=rule.version)
            self._wrote("DeviceTaintRule", rule.name, "deleted")
            done.untainted.append(rule.uuid or rule.device.device)
        for one in change.change:
            name = one.rule.name
            await api.patch(rules, name, "", one.patch, PatchForm.MERGE)
            self._wrote("DeviceTaintRule", name, "{key}={value}".format_map(one.patch["spec"]["taint"]))
        for manifest in change.create:
            try:
                await api.create(rules, {"apiVersion": rules.api} | manifest)
            except Conflict:
                taken.append(manifest)
            else:
                self._wrote("DeviceTaintRule", manifest["metadata"]["name"], _said(manifest))
                done.tainted.append(_uuid(manifest))
        return taken

    def _conclude(
        self, ill: Sequence[IllGpu], rules: Sequence[OwnRule], change: TaintChange, taken: Sequence[Object]
    ) -> None:
        there = len(rules) - len(change.delete) + len(change.create) - len(taken)
        missing = {*change.unmatched, *map(_uuid, taken)}
        self.status = TaintStatus(served=True, rules=there, unmatched=len(missing) + change.left_out)
        self._settled = not ill and not there
        told = [nodes.TAINT_RULE_TAKEN.say(name=one["metadata"]["name"], found=_said(one)) for one in taken]
        if change.unmatched:
            told.append(nodes.GPU_NOT_PUBLISHED.say(found="; ".join(change.unmatched)))
        if change.left_out:
            told.append(nodes.TOO_MANY_TAINT_RULES.say(count=change.left_out, limit=MOST_RULES))
        self._tell(told)

    def _tell(self, messages: Sequence[Message]) -> None:
        """Logs the messages that were not logged in the round before."""
        said = tuple(message.advice for message in messages)
        for text in said:
            if text not in self._told:
                self._log.taints(text)
        self._told = said


def _uuid(manifest: Object) -> str:
    uuid: str = manifest["metadata"]["annotations"][names.GPU_UUID]
    return uuid


def _said(manifest: Object) -> str:
    spec = manifest["spec"]
    return "{key}={value}:{effect} of ".format_map(spec["taint"]) + "/".join(spec["deviceSelector"].values())

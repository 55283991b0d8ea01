"""The inputs of the program: the variables of its container as one value (docs/injection.md, section 3)."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.allocation.dialect import Dialect
from webhook.decisions.allocation.model import Allocation
from webhook.decisions.allocation.reader import dialect_of
from webhook.decisions.resolve.demand import LINK_TABLES, GpuContainer, GpuDemand, NcclTables, Requirements
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import NodeTopology
from webhook.words import names
from webhook.words.choices import Alignment, Isolation, OnViolation, Policy, Profile
from webhook.words.errors import FormatError

_ENTRY = re.compile(
    r"(?P<name>[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?):(?P<count>0|[1-9][0-9]{0,2}):(?P<number>[0-9]{0,3})"
    r"(:(?P<kind>(?:init|left-out|privileged)(?:\+(?:left-out|privileged)){0,2}))?"
)
_NUMBER = re.compile(r"[0-9.eE+-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TRUTHS = {"true": True, "false": False}
_ISOLATED = {str(Isolation.ISOLATED): True, str(Isolation.HOST): False}
_PROFILES = (Profile.EXCLUSIVE, Profile.POD_PEERS, Profile.NODE_PEERS)
_GIVERS = {"hami": "HAMi", "volcano": "Volcano", "koordinator": "Koordinator", CLAIM: "the resource claim"}
_NOTHING = "nothing"
_FIX = "Admission sets it: is the image of this container of the same release as the webhook?"

T = TypeVar("T")


class Environment(StrEnum):
    """The source from which containers take the values that depend on their GPUs."""

    ANNOTATIONS = "annotations"
    FILE = "file"
    """The file that this program writes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """The description of one pod on its node, by admission and bind."""

    demand: GpuDemand
    node: str
    """The name of the node."""
    allocation: Allocation
    """The allocation; without devices if the annotation names none or is missing."""
    allocation_problem: str = ""
    """Why the allocation cannot be read. Only in ``exclusive``, where only the verification depends on it."""
    published: NodeTopology | None = None
    """The topology of the node that bind used; None if it wrote none."""
    visible_devices: Mapping[str, str] = field(default_factory=dict)
    """``CUDA_VISIBLE_DEVICES`` of containers by the keys of their annotations; empty if the annotation is missing."""
    visible_uuids: str | None = None
    """The list of the pod's GPUs. In ``pod-peers`` it is the ``NVIDIA_VISIBLE_DEVICES`` of all containers, in
    ``exclusive`` that of this container if it may not see every GPU of the node. None in all other cases."""
    environment: Environment = Environment.ANNOTATIONS
    alignment: str = ""
    """The pod's ``hami.io/numa-alignment``: HAMi may change the allocation after the Binding. Empty if it may not."""
    is_isolated: bool = False
    """Whether the processes of the pod get other IDs than those of its peers."""
    bound_uuids: str = ""
    """The pod's GPUs at the Binding, where this container sees all GPUs of the node and HAMi may change them since."""

    @property
    def profile(self) -> Profile:
        """The profile of the pod, never ``observe``."""
        return self.demand.profile

    @property
    def shown(self) -> tuple[str, ...]:
        """The UUIDs on the list of the pod's GPUs; none if there is no list, or bind has not written it."""
        text = self.visible_uuids or names.NO_VISIBLE_DEVICE
        return () if text == names.NO_VISIBLE_DEVICE else tuple(text.split(","))

    @property
    def bound(self) -> tuple[str, ...]:
        """The UUIDs of the pod's GPUs at the Binding, as far as this container is told; none if bind wrote none."""
        text = self.bound_uuids or names.NO_VISIBLE_DEVICE
        return self.shown or (() if text == names.NO_VISIBLE_DEVICE else tuple(text.split(",")))

    @property
    def is_blind(self) -> bool:
        """Whether this container sees no GPU, because it sees only the GPUs on the list and the list names none."""
        return self.profile is Profile.EXCLUSIVE and self.visible_uuids is not None and not self.shown

    @property
    def scheduler(self) -> str:
        """The name of the scheduler that allocated the GPUs, or of the resource claim."""
        return _GIVERS[self.demand.family]

    @property
    def dialect(self) -> Dialect:
        """The form of the allocation."""
        return dialect_of(self.demand.family)


def read_inputs(environment: Mapping[str, str]) -> Inputs:
    """Reads the variables.

    Raises:
        FormatError: a variable is missing or does not parse; the message begins with its name.
    """
    variables = _Variables(environment)
    profile = variables.choice(names.REMAP_PROFILE, {str(profile): profile for profile in _PROFILES})
    source = variables.choice(names.REMAP_ENVIRONMENT, _by_word(Environment), Environment.ANNOTATIONS)
    family = variables.choice(names.REMAP_ALLOCATED_BY, {word: word for word in _GIVERS}, "hami")
    containers = _read_containers(variables, family)
    keys = [container.visible_key for container in containers if container.visible_key]
    absent = "" if source is Environment.FILE else None
    allocation, problem = _read_allocation(variables, dialect_of(family), profile)
    return Inputs(
        demand=GpuDemand(
            profile=profile,
            containers=containers,
            family=family,
            requirements=_read_requirements(variables),
            on_violation=variables.choice(names.REMAP_ON_VIOLATION, _by_word(OnViolation), OnViolation.WARN),
            nccl=variables.parsed(names.REMAP_NCCL, _parse_tables, NcclTables()),
            host_network=variables.choice(names.REMAP_HOST_NETWORK, _TRUTHS, default=False),
        ),
        node=variables.filled(names.REMAP_NODE_NAME),
        allocation=allocation,
        allocation_problem=problem,
        published=_read_topology(variables),
        visible_devices={key: variables.text(_variable_of(key), absent) for key in keys},
        visible_uuids=None if family == CLAIM else _read_uuids(variables, profile, absent),
        environment=source,
        alignment=variables.choice(names.REMAP_NUMA_ALIGNMENT, {str(word): str(word) for word in Alignment}, ""),
        is_isolated=variables.choice(names.REMAP_ISOLATION, _ISOLATED, default=False),
        bound_uuids=variables.text(names.REMAP_BOUND_UUIDS, ""),
    )


def _read_uuids(variables: "_Variables", profile: Profile, absent: str | None) -> str | None:
    """Reads the list of the pod's GPUs. In ``exclusive`` it exists only if this container sees only the pod's GPUs."""
    if profile is Profile.POD_PEERS:
        return variables.text(names.REMAP_VISIBLE_UUIDS, absent)
    return variables.find(names.REMAP_VISIBLE_UUIDS) if profile is Profile.EXCLUSIVE else None


def _called(name: str) -> str:
    return f"variable {name}"


def _by_word(words: type[StrEnum]) -> dict[str, Any]:
    return {str(word): word for word in words}


def _variable_of(key: str) -> str:
    return names.REMAP_CUDA_VISIBLE_DEVICES_PREFIX + key.removeprefix(names.CUDA_VISIBLE_DEVICES_PREFIX)


class _Variables:
    """The environment variables. A variable without a default is required."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str, default: str | None = None) -> str:
        value = self._values.get(name, default)
        if value is None:
            raise FormatError(_called(name), expected="to be set", found=_NOTHING, fix=_FIX)
        return value

    def find(self, name: str) -> str | None:
        return self._values.get(name)

    def filled(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise FormatError(_called(name), expected="not to be empty", found="", fix=_FIX)
        return value

    def choice(self, name: str, choices: Mapping[str, T], default: T | None = None) -> T:
        if default is not None and name not in self._values:
            return default
        value = self._values.get(name)
        if value is None or value not in choices:
            found = _NOTHING if value is None else value
            raise FormatError(_called(name), expected=" or ".join(choices), found=found, fix=_FIX)
        return choices[value]

    def parsed(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """Parses a variable; returns the default if it is not set."""
        return parse(self._values[name]) if name in self._values else default


def _read_containers(variables: _Variables, family: str) -> tuple[GpuContainer, ...]:
    name = names.REMAP_CONTAINERS
    found = tuple(_read_container(entry) for entry in variables.filled(name).split(","))
    empty = next((container.name for container in found if not container.count), None)
    if empty and family != CLAIM:  # a claim may leave the count open
        raise FormatError(_called(name), expected="1 GPU or more of each container", found=f"{empty}:0", fix=_FIX)
    for what, values in (
        ("each container", [container.name for container in found]),
        ("each number", [container.visible_key for container in found if container.visible_key]),
    ):
        twice = next((value for value, count in Counter(values).items() if count > 1), None)
        if twice:
            raise FormatError(_called(name), expected=f"{what} once", found=f"{twice} twice", fix=_FIX)
    return found


def _read_container(text: str) -> GpuContainer:
    entry = _ENTRY.fullmatch(text)
    if not entry:
        expected = 'name:count:k for each container, such as "prefill:2:0,decode:2:1"'
        raise FormatError(_called(names.REMAP_CONTAINERS), expected=expected, found=text, fix=_FIX)
    kinds = (entry["kind"] or "").split("+")
    return GpuContainer(
        name=entry["name"],
        count=int(entry["count"]),
        is_init="init" in kinds,
        visible_key=names.CUDA_VISIBLE_DEVICES_PREFIX + entry["number"] if entry["number"] else "",
        selected="left-out" not in kinds,
        sees_node="privileged" in kinds,
    )


def _read_requirements(variables: _Variables) -> Requirements:
    return Requirements(
        nvlink=variables.choice(names.REMAP_REQUIRE_NVLINK, _TRUTHS, default=False),
        min_bandwidth=variables.parsed(names.REMAP_MIN_BANDWIDTH, _read_bandwidth, None),
        policy=variables.choice(names.REMAP_POLICY, _by_word(Policy), Policy.BEST_EFFORT),
    )


def _read_bandwidth(text: str) -> float:
    try:
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        expected = 'a number of GB/s such as "100"'
        raise FormatError(_called(names.REMAP_MIN_BANDWIDTH), expected=expected, found=text, fix=_FIX)
    return value


def _read_allocation(variables: _Variables, dialect: Dialect, profile: Profile) -> tuple[Allocation, str]:
    """Returns the allocation, and why it cannot be read. Like bind, it lets such a pod run in ``exclusive``."""
    text = variables.text(names.REMAP_ALLOCATION)
    if not text.strip(";"):
        return Allocation(), ""
    try:
        return dialect.parse(text, _called(names.REMAP_ALLOCATION)), ""
    except FormatError as error:
        if profile.shares_gpus and dialect.family != CLAIM:
            raise
        return Allocation(), str(error)


def _read_topology(variables: _Variables) -> NodeTopology | None:
    text = variables.text(names.REMAP_NODE_TOPOLOGY)
    if text in ("", names.UNKNOWN_TOPOLOGY):
        return None
    return parse_topology(text, source=_called(names.REMAP_NODE_TOPOLOGY))


def _parse_tables(text: str) -> NcclTables:
    """Parses the output of ``webhook.decisions.resolve.demand.format_tables``."""
    document = _load(text)
    variables = document.get("variables", {})
    if not isinstance(variables, dict):
        raise _bad_tables("variables: an object", variables)
    for name, values in variables.items():
        if not _VARIABLE.fullmatch(name):
            raise _bad_tables("variables: names of environment variables", name)
        if not isinstance(values, dict) or not _are_texts(values):
            raise _bad_tables(f"variables.{name}: texts for {', '.join(LINK_TABLES)}", values)
    return NcclTables(variables=variables)


def _are_texts(values: Mapping[str, object]) -> bool:
    return values.keys() <= set(LINK_TABLES) and all(isinstance(value, str) for value in values.values())


def _load(text: str) -> dict[str, Any]:
    import json  # noqa: PLC0415 - most pods have no tables

    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _bad_tables("an object in JSON", text)
    return document


def _bad_tables(expected: str, found: object) -> FormatError:
    return FormatError(_called(names.REMAP_NCCL), expected=expected, found=found, fix=_FIX)

"""The options of a pod, from its annotations, those of its namespace, and the configuration's ``defaults``."""

import difflib
import enum
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from webhook.objects.pod import Namespace, Pod
from webhook.words import names
from webhook.words.choices import (
    Carrier,
    Colocate,
    Isolation,
    NodePolicy,
    Nvls,
    OnViolation,
    P2pLevel,
    Peers,
    Place,
    Policy,
    Profile,
)
from webhook.words.errors import FormatError
from webhook.words.quantity import parse_quantity


class Variable(msgspec.Struct, frozen=True):
    """A variable from a ``gpu.topology/env.NAME`` annotation."""

    name: str
    value: str
    replaces: bool
    """Whether the variable wins over the container's own entry: only a variable of the pod's own annotations does."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """All options of one pod, resolved: configuration, then namespace, then pod."""

    inject: bool | None = None
    profile: Profile = Profile.EXCLUSIVE
    policy: Policy = Policy.BEST_EFFORT
    require_nvlink: bool = False
    min_bandwidth: float | None = None
    """GB/s per direction of the weakest pair."""
    on_violation: OnViolation = OnViolation.WARN
    nvls: Nvls = Nvls.AUTO
    nccl_p2p_level: P2pLevel = P2pLevel.AUTO
    topology_file: bool = True
    host_ipc: bool | None = None
    host_pid: bool | None = None
    host_network: bool | None = None
    shm_size: str = "8Gi"
    remap: Carrier = Carrier.AUTO
    containers: tuple[str, ...] | None = None
    group: str | None = None
    colocate: Colocate = Colocate.REQUIRED
    peers: Peers = Peers.AUTO
    isolation: Isolation = Isolation.HOST
    place: Place = Place.AUTO
    place_wait: float = 0.0
    """Seconds for which a pod that only warns waits for better cards than those that are free."""
    group_size: int = 1
    """Pods of the group that get their cards together."""
    max_nodes: int | None = None
    min_gpus_per_node: int = 1
    min_network_bandwidth: float | None = None
    """GB/s per direction between the nodes of a group."""
    node_policy: NodePolicy = NodePolicy.BEST_FIT
    move: bool | None = None
    """Whether ``gpu-topology defrag`` may move the pod; None: if a Deployment or StatefulSet creates it anew."""
    expect_nvlink: bool = True
    """Whether a hint is worth giving where NVLink seems unused."""
    env: tuple[Variable, ...] = ()
    unknown: tuple[str, ...] = ()
    """Annotations of the pod with our prefix that are no option and no output."""
    outputs: tuple[str, ...] = ()
    """Annotations of the pod that only we should write, also where a user wrote them."""


_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_CONTAINER_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# Python's float() also reads underscores, digits of other alphabets, and "nan".
_NUMBER = re.compile(r"[0-9.eE+-]+")
_DURATION = re.compile(r"(?:([0-9]{1,4})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,7})s)?")
_COUNT = re.compile(r"[1-9][0-9]{0,3}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

# Variables whose value the profile or the remap program decides: an annotation may not set them.
_RESERVED_VARIABLES = frozenset(
    {
        names.ENV_DISABLE_CONTROL,
        names.ENV_CUDA_DEVICE_ORDER,
        names.ENV_CUDA_VISIBLE_DEVICES,
        names.ENV_NVIDIA_VISIBLE_DEVICES,
        names.ENV_NVIDIA_DRIVER_CAPABILITIES,
        names.ENV_NCCL_HOSTID,
        names.ENV_NCCL_TOPO_FILE,
    }
)


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _bandwidth(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError
    number = float(text)
    if not math.isfinite(number) or number <= 0:
        raise ValueError
    return number


def _policy(text: str) -> Policy:
    return Policy.BEST_EFFORT if text == NodePolicy.PACK else Policy(text)


def _size(text: str) -> str:
    if parse_quantity(text, source="") <= 0:
        raise ValueError
    return text


def _container_names(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(","))
    if not all(map(_CONTAINER_NAME.fullmatch, found)):
        raise ValueError
    return found


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    if not text or not found:
        raise ValueError
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def _count(text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise ValueError
    return int(text)


def _label_value(text: str) -> str:
    if not _LABEL_VALUE.fullmatch(text):
        raise ValueError
    return text


def _one_of(choices: type[enum.StrEnum]) -> str:
    return "one of " + ", ".join(choices)


_BOOLEAN = '"true" or "false"'

# The parser of each option, and the value that it expects. The keys are the field names of Options, with dashes.
_PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "inject": (_boolean, _BOOLEAN),
    "profile": (Profile, _one_of(Profile)),
    "policy": (_policy, _one_of(Policy)),
    "require-nvlink": (_boolean, _BOOLEAN),
    "min-bandwidth": (_bandwidth, 'a number of GB/s such as "100"'),
    "on-violation": (OnViolation, _one_of(OnViolation)),
    "nvls": (Nvls, _one_of(Nvls)),
    "nccl-p2p-level": (P2pLevel, _one_of(P2pLevel)),
    "topology-file": (_boolean, _BOOLEAN),
    "host-ipc": (_boolean, _BOOLEAN),
    "host-pid": (_boolean, _BOOLEAN),
    "host-network": (_boolean, _BOOLEAN),
    "shm-size": (_size, 'a size such as "8Gi"'),
    "remap": (Carrier, _one_of(Carrier)),
    "containers": (_container_names, 'container names such as "prefill,decode"'),
    "group": (_label_value, "a label value of at most 63 letters, digits, '-', '_' and '.'"),
    "colocate": (Colocate, _one_of(Colocate)),
    "peers": (Peers, _one_of(Peers)),
    "isolation": (Isolation, _one_of(Isolation)),
    "place": (Place, _one_of(Place)),
    "place-wait": (_seconds, 'a duration such as "30s" or "1h30m"'),
    "group-size": (_count, 'a whole number from 1 to 9999, such as "4"'),
    "max-nodes": (_count, 'a whole number from 1 to 9999, such as "2"'),
    "min-gpus-per-node": (_count, 'a whole number from 1 to 9999, such as "4"'),
    "min-network-bandwidth": (_bandwidth, 'a number of GB/s such as "50"'),
    "node-policy": (NodePolicy, _one_of(NodePolicy)),
    "move": (_boolean, _BOOLEAN),
    "expect-nvlink": (_boolean, _BOOLEAN),
}
OPTION_NAMES = tuple(_PARSERS)
_NODE_POLICY = "node-policy"
FORMER_NAMES = {"multi-node-policy": _NODE_POLICY}
"""The names that annotations may still use for an option, each with the name that it has now."""
_LONGEST_NAME = max(map(len, OPTION_NAMES))


def parse_option(name: str, text: str, *, source: str) -> Any:
    """Returns the value of the option ``name`` (an element of ``OPTION_NAMES``, or a former name).

    Raises:
        FormatError: ``text`` is not such a value.
    """
    parse, expected = _PARSERS[FORMER_NAMES.get(name, name)]
    try:
        return parse(text)
    except (ValueError, KeyError, FormatError):
        raise FormatError(source, expected=expected, found=text) from None


def resolve_options(defaults: Options, pod: Pod, namespace: Namespace) -> Options:
    """Returns the options of a pod. Its annotations overrule those of its namespace, which overrule ``defaults``.

    Raises:
        FormatError: a value does not parse.
    """
    found: dict[str, Any] = {}
    variables = {variable.name: variable for variable in defaults.env}
    unknown: list[str] = []
    outputs: list[str] = []
    for annotations, is_pod, holder in (
        (namespace.annotations, False, f"namespace {namespace.name}"),
        (pod.annotations, True, f"pod {namespace.name}/{pod.display_name}"),
    ):
        for key, text in annotations.items():
            if not key.startswith(names.PREFIX) or key == names.MEASURED:
                continue
            name = key[len(names.PREFIX) :]
            source = f"annotation {key} on {holder}"
            if name in _PARSERS:
                found[name.replace("-", "_")] = parse_option(name, text, source=source)
            elif name in FORMER_NAMES:
                parse_option(name, text, source=source)
            elif name.startswith(names.ENV_PREFIX):
                variable = parse_variable(name[len(names.ENV_PREFIX) :], text, source=source, replaces=is_pod)
                variables[variable.name] = variable
            elif is_pod:
                (outputs if is_output(key) else unknown).append(key)
        found |= implied_node_policy(annotations, names.PREFIX)
    if variables:
        found["env"] = tuple(variables.values())
    if not (found or unknown or outputs):
        return defaults
    return msgspec.structs.replace(defaults, **found, unknown=tuple(unknown), outputs=tuple(outputs))


def name_of_node_policy(texts: Mapping[str, str], prefix: str = "") -> str:
    """Returns the name by which values set the policy for nodes: of several the first of these; empty without one.

    It is ``node-policy``, the former name ``multi-node-policy``, or ``policy`` with the value ``pack``, which means
    ``best-effort`` with the node policy ``pack``.

    Args:
        texts: The values of one holder, by name.
        prefix: The beginning of the names.
    """
    for name in (_NODE_POLICY, *FORMER_NAMES):
        if prefix + name in texts:
            return name
    return "policy" if texts.get(prefix + "policy") == NodePolicy.PACK else ""


def implied_node_policy(texts: Mapping[str, str], prefix: str = "") -> dict[str, NodePolicy]:
    """Returns the field ``node_policy`` if values that parse set it by another name; arguments as above."""
    name = name_of_node_policy(texts, prefix)
    return {} if name in {"", _NODE_POLICY} else {"node_policy": NodePolicy(texts[prefix + name])}


def is_reserved(name: str) -> bool:
    """Returns whether the profile or the remap program decides the value of a variable, so that no annotation may."""
    return name in _RESERVED_VARIABLES or name.startswith(names.REMAP_ENV_PREFIX)


def parse_variable(name: str, value: str, *, source: str, replaces: bool) -> Variable:
    """Returns the variable of an ``env.NAME`` option.

    Raises:
        FormatError: ``name`` is no name of a variable or is reserved, or an NCCL variable would be empty.
    """
    if not _VARIABLE_NAME.fullmatch(name):
        raise FormatError(source, expected="env. and the name of an environment variable", found=name)
    if is_reserved(name):
        raise FormatError(source, expected="a variable that no profile sets", found=name, fix="Remove the annotation")
    if not value and name.startswith(names.NCCL_VARIABLE_PREFIX):
        raise FormatError(source, expected="a value: NCCL misreads empty variables", found=value)
    return Variable(name, value, replaces)


def probably_meant(key: str) -> str | None:
    """Returns the option that the author of the annotation ``key`` probably meant; ``None`` if none is similar."""
    name = key[len(names.PREFIX) :]
    if len(name) > 2 * _LONGEST_NAME:
        return None  # no option is similar to so long a name, and the search takes longer with the length
    close = difflib.get_close_matches(name, OPTION_NAMES, n=1)
    return names.PREFIX + close[0] if close else None


def is_output(key: str) -> bool:
    """Returns whether only we write the annotation ``key``. The level of NCCL is not counted: it is also an option."""
    return key in names.OUTPUTS or key.startswith(names.OUTPUT_PREFIXES)

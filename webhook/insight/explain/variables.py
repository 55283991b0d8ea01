"""Conditions on the variables of NCCL and UCX: their values, who set them, and whether they leave NVLink on.

The variables with which a container turns NVLink off for itself are in ``webhook.decisions.request.nvlink_switches``,
which admission uses too. Source of the others: NCCL src/transport/nvls.cc, src/misc/param.cc.
"""

import re
from collections.abc import Callable, Iterator, Mapping

import msgspec

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.admit.steps.nccl import wanted_variables
from webhook.decisions.admit.steps.node_identity import LEGACY_IPC, NODE_NAME
from webhook.decisions.request.exchange import Program, signs
from webhook.decisions.request.nvlink_switches import (
    SWITCHES,
    Matters,
    Switch,
    lacks_cuda_ipc,
    read_integer,
)
from webhook.decisions.request.settings import (
    ALLOCATORS,
    CONF_FILE,
    GRAPH_FILE,
    IGNORE_DISABLED_P2P,
    P2P_DISABLE,
    SHM_DISABLE,
    UCX_TLS,
    Place,
    Setting,
    literals,
    read_texts,
)
from webhook.decisions.request.transfer_flags import NCCL_CONNECTORS
from webhook.decisions.resolve.nccl import P2P_DEFAULT, splits_nvls
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, Verdict, fails, holds, not_needed, unknown
from webhook.insight.explain.words import containers, says
from webhook.objects.pod import EnvVar, PodSpec
from webhook.objects.references import annotation_of
from webhook.words import names
from webhook.words.catalogue.variables import (
    COMMAND_REPLACES,
    COMMANDS_NOT_READ,
    CONF_FILE_NOT_READ,
    DISABLED_P2P_IGNORED,
    ENV_FROM_NOT_READ,
    EXPANDABLE_SEGMENTS,
    GRAPH_FILE_DECIDES,
    NVLS_FORCED,
    NVLS_OFF_HERE,
    NVLS_ON_BETWEEN_PODS,
    OWN_TOPOLOGY_FILE,
    VALUE_NOT_KNOWN,
)
from webhook.words.errors import shorten
from webhook.words.listing import listed

NO_VARIABLES, ENV_FROM, COMMANDS = "nccl-variables", "env-from", "commands"

_REMOVE, ASSIGNMENT = "Remove the variable", "Remove the assignment"
_OF_PEERS = frozenset({names.ENV_NCCL_HOSTID, names.ENV_NCCL_CUMEM_ENABLE})
"""Variables that a profile for peers sets itself."""
_LEVELS = frozenset({"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "P2C", "PHB", "SYS"})
"""Levels of all versions of NCCL: src/graph/topo.cc, topoPathTypeStr."""


class Value(msgspec.Struct, frozen=True):
    """A variable of a container, with its value."""

    name: str
    text: str | None
    """The value; ``None`` if it is not known here."""
    setter: str
    """The one who set the variable, in words."""
    correction: str = ""
    """The remedy for a wrong value that the pod did not set itself; empty if it did."""
    is_certain: bool = True
    """Whether the program surely gets the value. It may not get one that stands in a text."""
    is_in_text: bool = False
    """Whether a command sets or removes the variable."""
    verb: str = "set"


def variables(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields a finding for each variable, and for each value if containers or places differ."""
    found: dict[Value, list[PodContainer]] = {}
    replaced: set[tuple[str, PodContainer]] = set()
    cut: list[PodContainer] = []
    every = read_texts(container.spec for container in examined.gpu_containers)
    for container, texts in zip(examined.gpu_containers, every, strict=True):
        for name, variable in sorted(container.own_env.items()):
            if name.startswith(names.NCCL_VARIABLE_PREFIX) or name in _JUDGES:
                found.setdefault(_value(examined, variable), []).append(container)
        for value in filter(None, (_value_in_text(container.own_env, each) for each in texts.of_program)):
            found.setdefault(value, []).append(container)
            replaced.add((value.name, container))
        if texts.is_cut:
            cut.append(container)
    for value in _of_launchers(examined):
        found[value] = list(examined.gpu_containers)
        replaced |= {(value.name, container) for container in examined.gpu_containers}
    if not found:
        text = f"{says(examined.gpu_containers, 'sets', 'set')} none: NCCL's own defaults hold, which use NVLink"
        yield holds(NO_VARIABLES, f"{text}, unless the image or /etc/nccl.conf says otherwise")
    for value in sorted(found, key=lambda value: value.name):
        finding = _judged(examined, value, found[value])
        is_replaced = any((value.name, container) in replaced for container in found[value])
        yield _doubted(finding) if not value.is_certain or (is_replaced and not value.is_in_text) else finding
    hidden = [container for container in examined.gpu_containers if container.spec.has_env_from]
    if hidden:
        yield unknown(ENV_FROM, ENV_FROM_NOT_READ.say(containers=says(hidden, "takes", "take")))
    if cut:
        yield unknown(COMMANDS, COMMANDS_NOT_READ.say(containers=containers(cut)))


def _doubted(finding: Finding) -> Finding:
    """Returns what a finding says where a text may give the program another value."""
    if not finding.fails:
        return finding
    return msgspec.structs.replace(finding, verdict=Verdict.UNKNOWN, stops=False)


def _value_in_text(own_env: Mapping[str, EnvVar], setting: Setting) -> Value | None:
    """Returns the value that a command gives a variable; none where it changes nothing, or is not judged here."""
    name, is_set = setting.name, setting.name in own_env
    if name not in _JUDGES or (setting.is_default and is_set) or (setting.is_removed and not is_set):
        return None
    verb = "removed" if setting.is_removed else "set"
    remedy = f"{ASSIGNMENT} from {setting.place}"
    return Value(name, setting.value, f"the pod, in {setting.place}", remedy, setting.is_certain, True, verb)


def _of_launchers(examined: ExaminedPod) -> Iterator[Value]:
    """Yields what launchers of the pod set, which reaches its processes only if the launcher passes it on."""
    for launcher in examined.evidence.launchers:
        every = (launcher.spec or PodSpec()).containers or []
        for container, texts in zip(every, read_texts(every), strict=True):
            own = [Setting(name, value, Place.ENV) for name, value in literals(container).items()]
            for value in filter(None, (_value_in_text({}, each) for each in (*own, *texts.of_program))):
                who = value.setter.replace("the pod", f"its launcher {launcher.display_name}")
                remedy = f"{value.correction} of the launcher"
                yield msgspec.structs.replace(value, setter=who, correction=remedy, is_certain=False)


def _value(examined: ExaminedPod, variable: EnvVar) -> Value:
    name = variable.name
    if variable.value_from is None:
        text = variable.value or ""
        return Value(name, None if "$(" in text else text, *_literal_setter(examined, name, text))
    key = annotation_of(variable)
    if key is not None:
        ours = key == names.NCCL_P2P_LEVEL or key.startswith(names.PREFIX)
        who, correction = ("the webhook", _written_at_binding(key)) if ours and examined.injected else ("the pod", "")
        text = examined.evidence.pod.annotations.get(key, "")
        return Value(name, text, f"{who}, through annotation {key}", correction)
    if variable.reads(NODE_NAME):
        who = "the webhook" if examined.injected else "the pod"
        return Value(name, examined.evidence.node or None, f"{who}: the name of the node")
    if variable.value_from.file_key_ref is not None:
        who = "the remap program, through its file"
        return Value(name, _resolved(examined).get(name), who, "Look what the remap container logged")
    return Value(name, None, "the pod, from a source that is not looked at")


def _written_at_binding(key: str) -> str:
    own = f"Remove annotation {key} if you wrote it. " if key == names.NCCL_P2P_LEVEL else ""
    return f"{own}The webhook writes annotation {key} at the Binding: see told-at-binding, and create the pod again"


def _literal_setter(examined: ExaminedPod, name: str, text: str) -> tuple[str, str]:
    """Returns who set a literal value, and the remedy if the value is wrong."""
    key = f"{names.PREFIX}{names.ENV_PREFIX}{name}"
    for holder, annotations in (
        ("pod", examined.evidence.pod.annotations),
        ("namespace", examined.evidence.namespace.annotations),
    ):
        if examined.injected and annotations.get(key) == text:
            correction = f"Correct annotation {key} of the {holder} and create the pod again"
            return f"the webhook, for annotation {key} of the {holder}", correction
    if not examined.injected:
        return "the pod", ""
    correction = "Correct the webhook's configuration and create the pod again"
    if any(variable.name == name and variable.value == text for variable in examined.options.env):
        return "the webhook, for the configuration's defaults", correction
    return ("the webhook", correction) if _ours(examined).get(name) == text else ("the pod", "")


def _ours(examined: ExaminedPod) -> Mapping[str, str]:
    """Returns the literals that the webhook sets where the pod does not."""
    if examined.subject is None:
        return {}
    found = {variable.name: variable.value for variable in wanted_variables(examined.subject) if not variable.key}
    return found | {
        names.ENV_NCCL_TOPO_FILE: names.TOPOLOGY_FILE,
        names.ENV_NCCL_CONF_FILE: names.NCCL_FILE,
        names.ENV_NCCL_CUMEM_ENABLE: LEGACY_IPC if examined.profile.shares_gpus else "",
    }


def _resolved(examined: ExaminedPod) -> Mapping[str, str]:
    """Returns the values that fit the GPUs of the pod."""
    return dict(examined.resolution.nccl) if examined.resolution else {}


def _judged(examined: ExaminedPod, value: Value, found: list[PodContainer]) -> Finding:
    seen = "not known here" if value.text is None else shorten(value.text)
    said = f"{containers(found)}: {seen}, {value.verb} by {value.setter}"
    judge = _JUDGES.get(value.name)
    if judge is None:
        return holds(value.name, said)
    if value.is_in_text and value.name in _OF_PEERS and examined.profile.shares_gpus:
        return unknown(value.name, COMMAND_REPLACES.say(setting=said, profile=examined.profile))
    if value.text is None:
        return unknown(value.name, VALUE_NOT_KNOWN.say(setting=said))
    switch = SWITCHES.get(value.name)
    if switch and switch.takes(value.text) and _matters(examined, switch):
        found_off = fails(value.name, switch.finding.say(setting=said), stops=switch.stops)
        return msgspec.structs.replace(found_off, remedy=value.correction or found_off.remedy)
    verdict = judge(examined, value.text, said)
    evidence = verdict.evidence if verdict.code else " ".join(filter(None, (said, verdict.evidence)))
    remedy = value.correction if verdict.remedy.startswith(_REMOVE) and value.correction else verdict.remedy
    return msgspec.structs.replace(verdict, condition=value.name, evidence=evidence, remedy=remedy)


def _matters(examined: ExaminedPod, switch: Switch) -> bool:
    if switch.matters is Matters.PEERS:
        return examined.profile.shares_gpus
    if switch.matters is Matters.ALL:
        return True
    sets = examined.resolution.sets if examined.resolution else ()
    return not sets or not all(gpu_set.every_pair_has_nvlink for gpu_set in sets)


def _p2p_disable(_: ExaminedPod, _text: str, _setting: str) -> Finding:
    return holds("", "(only the number 1 has an effect)")


def _p2p_level(_: ExaminedPod, text: str, _setting: str) -> Finding:
    if text == P2P_DEFAULT:
        return holds("", "(no level of NCCL's, so that its own default holds)")
    if text and text not in _LEVELS and not re.match(r"[0-9]", text):
        return holds("", "(NCCL knows no such level, and ignores it)")
    return holds("", "")


def _shm_disable(_: ExaminedPod, text: str, _setting: str) -> Finding:
    if SWITCHES[SHM_DISABLE].takes(text):
        return holds("", "(every pair has NVLink, so shared memory is not missed)")
    return holds("", "")


def _nvls(examined: ExaminedPod, text: str, setting: str) -> Finding:
    wanted = _resolved(examined).get(names.ENV_NCCL_NVLS_ENABLE)
    off = bool(text) and read_integer(text) == 0
    if not off and fails_between_pods(examined):
        return fails("", NVLS_ON_BETWEEN_PODS.say(setting=setting), stops=True)
    if wanted is None or off == (wanted == "0"):
        return holds("", "")
    if off:
        return fails("", NVLS_OFF_HERE.say(setting=setting))
    if read_integer(text) == 1:
        return fails("", NVLS_FORCED.say(setting=setting))
    if examined.resolution and not examined.resolution.node.is_fabric_ready:
        return holds("", "(NVLink SHARP needs the NVLink fabric, which is not ready)")
    return holds("", "(NCCL finds out by itself that these GPUs have no NVLink SHARP)")


def fails_between_pods(examined: ExaminedPod) -> bool:
    """Returns whether NCCL would try in vain to set up NVLink SHARP with other pods of the node."""
    if not splits_nvls(examined.profile, host_network=bool(examined.spec.host_network)):
        return False
    node = examined.resolution.node if examined.resolution else None
    return node is None or not node.switched.isdisjoint(node.with_nvls)


def _conf_file(examined: ExaminedPod, text: str, setting: str) -> Finding:
    if text == names.NCCL_FILE and examined.resolution:
        values = listed(f"{name}={value}" for name, value in examined.resolution.nccl_file) or "nothing"
        return holds("", f"(it sets {values})")
    if text:
        return unknown("", CONF_FILE_NOT_READ.say(setting=setting))
    return holds("", "(NCCL looks for its usual files)")


def _graph_file(_: ExaminedPod, _text: str, setting: str) -> Finding:
    return unknown("", GRAPH_FILE_DECIDES.say(setting=setting))


def _topo_file(_: ExaminedPod, text: str, setting: str) -> Finding:
    if text == names.TOPOLOGY_FILE:
        return holds("", "")
    if not text:
        return holds("", "(NCCL reads no file)")
    return unknown("", OWN_TOPOLOGY_FILE.say(setting=setting))


def _ucx_tls(examined: ExaminedPod, text: str, _setting: str) -> Finding:
    if not lacks_cuda_ipc(text):
        if examined.profile.shares_gpus:
            return holds("", "(with cuda_ipc)")
        return holds("", f"(with cuda_ipc, which in profile {examined.profile} reaches no other container or pod)")
    return not_needed("", "(without cuda_ipc UCX does not use NVLink; NCCL does not look at it)")


def _as_it_is(_: ExaminedPod, _text: str, _setting: str) -> Finding:
    return holds("", "")


def _ignore_disabled_p2p(_: ExaminedPod, text: str, setting: str) -> Finding:
    if read_integer(text):
        return unknown("", DISABLED_P2P_IGNORED.say(setting=setting))
    return holds("", "")


def _allocator(examined: ExaminedPod, text: str, setting: str) -> Finding:
    """Returns the finding about PyTorch's allocator, whose expandable segments CUDA IPC does not pass on."""
    if "expandable_segments:true" not in text.lower():
        return holds("", "")
    exchanging = [
        sign
        for sign in signs(examined.spec, [container.spec for container in examined.apps])
        if sign.program is not Program.HOST_NAMESPACES and sign.connector not in NCCL_CONNECTORS
    ]
    if not exchanging:
        return holds("", "(nothing shows that its memory goes to other processes, so that it costs nothing)")
    return fails("", EXPANDABLE_SEGMENTS.say(setting=setting, sign=exchanging[0]))


_JUDGES: Mapping[str, Callable[[ExaminedPod, str, str], Finding]] = {
    P2P_DISABLE: _p2p_disable,
    names.ENV_NCCL_P2P_LEVEL: _p2p_level,
    SHM_DISABLE: _shm_disable,
    names.ENV_NCCL_NVLS_ENABLE: _nvls,
    names.ENV_NCCL_HOSTID: _as_it_is,
    names.ENV_NCCL_CUMEM_ENABLE: _as_it_is,
    IGNORE_DISABLED_P2P: _ignore_disabled_p2p,
    **dict.fromkeys(ALLOCATORS, _allocator),
    GRAPH_FILE: _graph_file,
    CONF_FILE: _conf_file,
    names.ENV_NCCL_TOPO_FILE: _topo_file,
    UCX_TLS: _ucx_tls,
}

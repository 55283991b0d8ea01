"""A grammar of pods that the API server takes, of any size: a recipe says which fields are long, and what is in them.

A recipe is JSON: ``{"parts": [["arguments", "shell"], ["annotation", "nested"]], "profile": "pod-peers", ...}``. The
same recipe makes a small pod and one a thousand times as long, so that work can be compared with length.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from string import ascii_letters
from typing import Any, TypeAlias

from tests.fuzz.vocabulary import our_keys
from tests.pods import SHARED_MEMORY, Manifest, container, pod
from webhook.words import names

Text: TypeAlias = Callable[[int], str]
"""A text that takes so many bytes of JSON, or a few more."""
Fill: TypeAlias = Callable[[Manifest, Text, int], object]
"""Puts about so many bytes of the text into a field of the pod."""

ANNOTATION_BYTES = 256 * 1024
"""Keys and values of all annotations of an object (apimachinery api/validation, TotalAnnotationSizeLimitB)."""
PARTS = 4
"""Fields of one pod that are long."""
PROFILES = ("", "exclusive", "pod-peers", "node-peers", "observe")
_PROFILE = "gpu.topology/profile"
_NOT_OURS = (_PROFILE, names.CONFIG_MIRROR)
"""Keys that a part does not write: the recipe says the profile, and the API server takes mirror pods from kubelets."""
_QUALIFIED = re.compile(r"[a-z0-9][a-z0-9.-]{0,251}[a-z0-9]/[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_NAME_LENGTH = 63
_ARGUMENTS = "VLLM_ADDITIONAL_ARGS"
_FEW = 60
"""Containers that two parts of a pod may have, both within the webhook's limit."""


def repeated(piece: str) -> Text:
    """A text of one piece, again and again."""
    length = len(json.dumps(piece)) - len('""')
    return lambda size: piece * (size // length + 1)


def nested(begin: str, end: str) -> Text:
    """JSON as deep as it is long."""

    def text(size: int) -> str:
        depth = max(1, size // len(begin + end))
        return begin * depth + end * depth

    return text


TEXTS: Mapping[str, Text] = {
    "plain": repeated("x"),
    "blanks": repeated(" "),
    "lines": repeated("\n"),
    "nulls": repeated("\0"),
    "quotes": repeated("'\""),
    "backslashes": repeated("\\"),
    "dollars": repeated("$("),
    "references": repeated("$(CUDA_VISIBLE_DEVICES) ${NCCL_P2P_DISABLE} "),
    "comments": repeated("# "),
    "echoes": repeated("echo CUDA_VISIBLE_DEVICES=0\n"),
    "digits": repeated("9"),
    "zeros": repeated("0"),
    "commas": repeated(","),
    "segments": repeated("GPU-0,NVIDIA,0,0:;"),
    "cards": repeated("GPU-1,"),
    "lists of GPUs": repeated("export NVIDIA_VISIBLE_DEVICES=all;"),
    "mentions": repeated("VISIBLE_DEVICES "),
    "items": repeated('os.environ["CUDA_VISIBLE_DEVICES"]'),
    "connectors": repeated('--kv-transfer-config={"kv_connector":"NixlConnector"} '),
    "torn connectors": repeated("--kv-transfer-config={'kv_connector' : "),
    "gaps": repeated("--disaggregation-mode                                  "),
    "transceivers": repeated("cache_transceiver_config backend "),
    "assignments": repeated("UCX_TLS=^cuda_ipc "),
    "launchers": repeated("torchrun --nproc-per-node=8 mpirun "),
    "paths": repeated(f"{SHARED_MEMORY}/.."),
    "marks": repeated("\u202e\u200b\u2066"),
    "wide": repeated("é\U0001f4a5ह\u0301"),
    "tags": repeated("\U000e0001"),
    "secrets": repeated("password=hunter2 "),
    "lists": nested("[", "]"),
    "objects": nested('{"a":', "}"),
    "devices": lambda size: json.dumps([{"minor": number, "id": f"GPU-{number}"} for number in range(size // 28 + 1)]),
}
"""What stands in a field, by its name."""


def _names(size: int, each: int = _NAME_LENGTH + 1) -> Iterator[str]:
    """DNS labels, as many as take so many bytes."""
    for number in range(max(1, size // each)):
        yield f"{'n' * (_NAME_LENGTH - 12)}-{number:011}"


def _key(name: str) -> str:
    """A name with a prefix, as labels, taints and resources have."""
    return f"example.com/{name}"


def _at(made: Manifest, path: str, empty: Any) -> Any:
    """What stands at a path such as ``spec.volumes``, made where it is not there; ``main`` is the first container."""
    first, *rest = path.split(".")
    found = made["spec"]["containers"][0] if first == "main" else made[first]
    for part in rest[:-1]:
        found = found.setdefault(part, {})
    return found.setdefault(rest[-1], empty)


def _list(path: str, each: int, entry: Callable[[str], Any]) -> Fill:
    """A list whose entries take so many bytes each, made from a name."""
    return lambda made, _, size: _at(made, path, []).extend(map(entry, _names(size, each)))


def _words(path: str, each: int, entry: Callable[[str, int], Any], *, text: int) -> Fill:
    """A list whose entries take so many bytes each, made from a text of so many bytes and a number."""

    def fill(made: Manifest, write: Text, size: int) -> None:
        word = write(text)
        _at(made, path, []).extend(entry(word, number) for number in range(1 + size // each))

    return fill


def _map(path: str, each: int, value: Callable[[str], Any] = str) -> Fill:
    """An object whose members take so many bytes each."""
    return lambda made, _, size: _at(made, path, {}).update({_key(name): value(name) for name in _names(size, each)})


def _few(prefix: str, fields: Callable[[str], dict[str, Any]]) -> Fill:
    """As many containers as may be injected, however long they are."""

    def fill(made: Manifest, write: Text, size: int) -> None:
        each = write(size // _FEW)
        more = (container(f"{prefix}{name[1:]}", 2, **fields(each)) for name in _names(64 * _FEW))
        made["spec"]["containers"].extend(more)

    return fill


def _annotate(made: Manifest, more: Mapping[str, str]) -> None:
    """Adds annotations as far as an object may have them."""
    found = made["metadata"].setdefault("annotations", {})
    room = ANNOTATION_BYTES - sum(len(key) + len(value.encode()) for key, value in found.items())
    for key, value in more.items():
        room -= len(key) + len(value.encode())
        if room < 0:
            return
        found[key] = value


def _annotations(keys: Callable[[int], list[str]], *, each: int = 0) -> Fill:
    """Annotations of these keys, which share the bytes, or have so many each."""

    def fill(made: Manifest, text: Text, size: int) -> None:
        found = keys(min(size, ANNOTATION_BYTES))
        _annotate(made, dict.fromkeys(found, text(each or min(size, ANNOTATION_BYTES // 2) // len(found))))

    return fill


def _own_keys(_: int) -> list[str]:
    return [key for key in dict.fromkeys(our_keys()) if _QUALIFIED.fullmatch(key) and key not in _NOT_OURS]


def _allocation(made: Manifest, text: Text, size: int) -> None:
    keys = ["hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new", "scheduling.koordinator.sh/device-allocated"]
    _annotations(lambda _: keys)(made, text, size)
    _annotate(made, {"hami.io/vgpu-node": "h20-node-1"})


def _shared_memory(made: Manifest, _: Text, size: int) -> None:
    labels = [f"s{name[1:]}" for name in _names(size, 288)]
    _at(made, "spec.volumes", []).extend({"name": name, "emptyDir": {"medium": "Memory"}} for name in labels)
    mounts = ({"name": name, "mountPath": f"/mnt/{name}", "subPath": name} for name in labels)
    _at(made, "main.volumeMounts", []).extend(mounts)


def _projected(made: Manifest, text: Text, size: int) -> None:
    path = text(32).replace("/", "").replace("..", "").replace("\0", "") or "x"
    items = [{"path": f"{n}{path}", "fieldRef": {"fieldPath": "metadata.labels"}} for n in range(1 + size // 96)]
    volume = {"name": "projected", "projected": {"sources": [{"downwardAPI": {"items": items}}]}}
    _at(made, "spec.volumes", []).append(volume)


def _claims(made: Manifest, _: Text, size: int) -> None:
    claims = list(_names(size, 256))
    made["spec"]["resourceClaims"] = [{"name": name, "resourceClaimTemplateName": name} for name in claims]
    _at(made, "main.resources.claims", []).extend({"name": name} for name in claims)


def _long_variable(made: Manifest, _: Text, size: int) -> None:
    name = (ascii_letters * (size // len(ascii_letters) + 1))[:size]
    _at(made, "main.env", []).append({"name": f"V{name}", "value": "1"})


def _set(path: str, value: Callable[[Text, int], Any]) -> Fill:
    """One value, in the place of another."""

    def fill(made: Manifest, text: Text, size: int) -> None:
        parent, _, last = path.rpartition(".")
        _at(made, parent, {})[last] = value(text, size)

    return fill


def _reference(_: str, number: int) -> Manifest:
    path = f"metadata.annotations['gpu.topology/nccl-env.V{number}']"
    return {"name": f"D{number}", "valueFrom": {"fieldRef": {"fieldPath": path}}}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERM = {"topologyKey": "kubernetes.io/hostname"}
_ZONE = {"key": "example.com/zone", "operator": "In"}
_REMAP = ["gpu-topology", "remap"]

FIELDS: Mapping[str, Fill] = {
    "arguments": lambda made, text, size: _at(made, "main.args", []).append(text(size)),
    "words": lambda made, text, size: _at(made, "main.command", ["sh"]).extend(text(24) for _ in range(size // 24)),
    "probe": _set("main.livenessProbe.exec", lambda text, size: {"command": ["sh", "-c", text(size)]}),
    "hook": _words("main.lifecycle.postStart.exec.command", 64, lambda word, _: word, text=64),
    "headers": _set(
        "main.readinessProbe.httpGet",
        lambda text, size: {"port": 80, "httpHeaders": [{"name": "X-Long", "value": text(64)}] * (1 + size // 96)},
    ),
    "variable": lambda made, text, size: _at(made, "main.env", []).append({"name": _ARGUMENTS, "value": text(size)}),
    "variables": _words("main.env", 48, lambda word, n: {"name": f"V{n}", "value": word}, text=16),
    "equal variables": _words("main.env", 48, lambda word, _: {"name": "UCX_TLS", "value": word}, text=16),
    "long variable": _long_variable,
    "downward variables": _words("main.env", 128, _reference, text=1),
    "sources of variables": _list("main.envFrom", 96, lambda name: {"configMapRef": {"name": name}}),
    "containers": lambda made, text, size: made["spec"]["containers"].extend(
        container(name, 2, args=[text(32)]) for name in _names(size, 192)
    ),
    "few containers": _few("n", lambda text: {"args": [text]}),
    "privileged containers": _few("p", lambda text: {"args": [text], "securityContext": {"privileged": True}}),
    "variables of containers": _few("v", lambda text: {"env": [{"name": _ARGUMENTS, "value": text}]}),
    "init containers": lambda made, text, size: _at(made, "spec.initContainers", []).extend(
        container(name, None, args=[text(32)], restartPolicy="Always") for name in _names(size, 192)
    ),
    "remap containers": _words(
        "spec.initContainers", 128, lambda _, n: container(f"gpu-topology-remap-{n}", None, command=_REMAP), text=1
    ),
    "volumes": _list("spec.volumes", 96, lambda name: {"name": name, "emptyDir": {}}),
    "shared memory": _shared_memory,
    "projected": _projected,
    "annotation": _annotations(lambda _: [_key("long")]),
    "annotations": _annotations(lambda size: [_key(name) for name in _names(size, 108)], each=32),
    "own annotations": _annotations(_own_keys),
    "env annotations": _annotations(lambda size: [f"gpu.topology/env.V{n}" for n in range(1 + size // 48)], each=16),
    "allocation": _allocation,
    "labels": _map("metadata.labels", 144),
    "node affinity": _set(
        f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms",
        lambda _, size: [{"matchExpressions": [_ZONE | {"values": list(_names(size))}]}],
    ),
    "pod affinity": _list(
        f"spec.affinity.podAffinity.{_REQUIRED}",
        192,
        lambda name: _TERM | {"labelSelector": {"matchLabels": {"gpu.topology/group": name}}},
    ),
    "tolerations": _list("spec.tolerations", 128, lambda name: {"key": _key(name), "operator": "Exists"}),
    "gates": _list("spec.schedulingGates", 96, lambda name: {"name": _key(name)}),
    "node selector": _map("spec.nodeSelector", 144),
    "hosts": lambda made, _, size: _at(made, "spec.hostAliases", []).append(
        {"ip": "127.0.0.1", "hostnames": list(_names(size))}
    ),
    "resources": _map("main.resources.limits", 96, lambda _: 1),
    "quantity": _set("main.resources.limits.memory", lambda _, size: "0" * size + "1Gi"),
    "number of GPUs": lambda made, _, size: _at(made, "main.resources.limits", {}).update(
        {"nvidia.com/gpu": "0" * size + "2"}
    ),
    "ports": _words("main.ports", 24, lambda _, n: {"containerPort": 1 + n % 65535}, text=1),
    "groups": _words("spec.securityContext.supplementalGroups", 10, lambda _, n: 10**8 + n, text=1),
    "owners": _list(
        "metadata.ownerReferences",
        208,
        lambda name: {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name},
    ),
    "finalizers": _list("metadata.finalizers", 80, _key),
    "claims": _claims,
    "directory": lambda made, text, size: made["spec"]["containers"][0].update(workingDir=text(size)),
    "dns": _words("spec.dnsConfig.options", 56, lambda word, _: {"name": "x", "value": word}, text=32),
}
"""The fields of a pod that have no limit of their own, or a large one."""

WORST = [
    ("few containers", "transceivers"),
    ("few containers", "lists of GPUs"),
    ("variables of containers", "references"),
    ("arguments", "mentions"),
    ("variables", "plain"),
    ("containers", "plain"),
    ("claims", "plain"),
]
"""Fields and texts that took most for each byte, or once did."""


@dataclass(frozen=True)
class Recipe:
    """How a pod is made."""

    parts: tuple[tuple[str, str], ...]
    """Fields that are long, each with what is in it."""
    profile: str = ""

    def grown(self, size: int) -> Manifest:
        """The pod, whose long fields share so many bytes."""
        made = pod(container(), annotations={_PROFILE: self.profile} if self.profile else {})
        for field, text in self.parts:
            FIELDS[field](made, TEXTS[text], size // len(self.parts))
        return made


def read_recipe(document: Any) -> Recipe | None:
    """A recipe; ``None`` if there is none. Parts that are no parts are left out."""
    parts = document.get("parts") if isinstance(document, dict) else None
    found = [tuple(part) for part in parts if _is_part(part)] if isinstance(parts, list) else []
    if not found:
        return None
    profile = document.get("profile")
    return Recipe(tuple(found[:PARTS]), profile if profile in PROFILES else "")


def _is_part(part: Any) -> bool:
    return (
        isinstance(part, list)
        and len(part) == 2
        and all(isinstance(each, str) for each in part)
        and part[0] in FIELDS
        and part[1] in TEXTS
    )


def recipes() -> Iterator[Manifest]:
    """Each field with a text of its own, and each text in what is read of a container, under the profiles in turn."""
    texts, profiles = cycle(TEXTS), cycle(PROFILES)
    for field in FIELDS:
        yield {"parts": [[field, next(texts)]], "profile": next(profiles)}
    for text in TEXTS:
        parts = [["few containers", text], ["privileged containers", text], ["own annotations", text]]
        yield {"parts": parts, "profile": next(profiles)}

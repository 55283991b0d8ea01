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
Fill: TypeAlias = Callable[[Manifest, Text, int], None]
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


def _container(made: Manifest) -> Manifest:
    found: Manifest = made["spec"]["containers"][0]
    return found


def _annotate(made: Manifest, more: Mapping[str, str]) -> None:
    """Adds annotations as far as an object may have them."""
    found = made["metadata"].setdefault("annotations", {})
    room = ANNOTATION_BYTES - sum(len(key) + len(value.encode()) for key, value in found.items())
    for key, value in more.items():
        room -= len(key) + len(value.encode())
        if room < 0:
            return
        found[key] = value


def _arguments(made: Manifest, text: Text, size: int) -> None:
    _container(made).setdefault("args", []).append(text(size))


def _words(made: Manifest, text: Text, size: int) -> None:
    _container(made).setdefault("command", ["sh"]).extend(text(24) for _ in range(size // 24))


def _probe(made: Manifest, text: Text, size: int) -> None:
    _container(made)["livenessProbe"] = {"exec": {"command": ["sh", "-c", text(size)]}}


def _hook(made: Manifest, text: Text, size: int) -> None:
    _container(made)["lifecycle"] = {"postStart": {"exec": {"command": [text(64) for _ in range(1 + size // 64)]}}}


def _headers(made: Manifest, text: Text, size: int) -> None:
    headers = [{"name": "X-Long", "value": text(64)} for _ in range(1 + size // 96)]
    _container(made)["readinessProbe"] = {"httpGet": {"port": 80, "httpHeaders": headers}}


def _variable(made: Manifest, text: Text, size: int) -> None:
    _container(made).setdefault("env", []).append({"name": "VLLM_ADDITIONAL_ARGS", "value": text(size)})


def _variables(made: Manifest, text: Text, size: int) -> None:
    value = text(16)
    _container(made).setdefault("env", []).extend({"name": f"V{n}", "value": value} for n in range(1 + size // 48))


def _equal_variables(made: Manifest, text: Text, size: int) -> None:
    entry = {"name": "UCX_TLS", "value": text(16)}
    _container(made).setdefault("env", []).extend(entry for _ in range(1 + size // 48))


def _long_variable(made: Manifest, _: Text, size: int) -> None:
    name = (ascii_letters * (size // len(ascii_letters) + 1))[:size]
    _container(made).setdefault("env", []).append({"name": f"V{name}", "value": "1"})


def _downward(made: Manifest, _: Text, size: int) -> None:
    path = "metadata.annotations['gpu.topology/nccl-env.V{}']"
    _container(made).setdefault("env", []).extend(
        {"name": f"D{n}", "valueFrom": {"fieldRef": {"fieldPath": path.format(n)}}} for n in range(1 + size // 128)
    )


def _sources(made: Manifest, _: Text, size: int) -> None:
    _container(made)["envFrom"] = [{"configMapRef": {"name": name}} for name in _names(size, 96)]


def _few_containers(made: Manifest, text: Text, size: int) -> None:
    """As many as may be injected, however long they are."""
    each = text(size // _FEW)
    more = (container(name, 2, args=[each]) for name in _names(64 * _FEW))
    made["spec"]["containers"].extend(more)


def _privileged_containers(made: Manifest, text: Text, size: int) -> None:
    each, context = text(size // _FEW), {"privileged": True}
    more = (container(f"p{name[1:]}", 2, args=[each], securityContext=context) for name in _names(64 * _FEW))
    made["spec"]["containers"].extend(more)


def _variables_of_containers(made: Manifest, text: Text, size: int) -> None:
    env = [{"name": "VLLM_ADDITIONAL_ARGS", "value": text(size // _FEW)}]
    more = (container(f"v{name[1:]}", 2, env=env) for name in _names(64 * _FEW))
    made["spec"]["containers"].extend(more)


def _containers(made: Manifest, text: Text, size: int) -> None:
    more = (container(name, 2, args=[text(32)]) for name in _names(size, 192))
    made["spec"]["containers"].extend(more)


def _init_containers(made: Manifest, text: Text, size: int) -> None:
    more = (container(name, None, args=[text(32)], restartPolicy="Always") for name in _names(size, 192))
    made["spec"].setdefault("initContainers", []).extend(more)


def _remap_containers(made: Manifest, _: Text, size: int) -> None:
    command = ["gpu-topology", "remap"]
    more = (container(f"gpu-topology-remap-{n}", None, command=command) for n in range(1 + size // 128))
    made["spec"].setdefault("initContainers", []).extend(more)


def _volumes(made: Manifest, _: Text, size: int) -> None:
    made["spec"].setdefault("volumes", []).extend({"name": name, "emptyDir": {}} for name in _names(size, 96))


def _shared_memory(made: Manifest, _: Text, size: int) -> None:
    labels = [f"s{name[1:]}" for name in _names(size, 288)]
    volumes = ({"name": name, "emptyDir": {"medium": "Memory"}} for name in labels)
    made["spec"].setdefault("volumes", []).extend(volumes)
    mounts = [{"name": name, "mountPath": f"/mnt/{name}", "subPath": name} for name in labels]
    _container(made).setdefault("volumeMounts", []).extend(mounts)


def _projected(made: Manifest, text: Text, size: int) -> None:
    path = text(32).replace("/", "").replace("..", "").replace("\0", "") or "x"
    items = [{"path": f"{n}{path}", "fieldRef": {"fieldPath": "metadata.labels"}} for n in range(1 + size // 96)]
    sources = [{"downwardAPI": {"items": items}}]
    made["spec"].setdefault("volumes", []).append({"name": "projected", "projected": {"sources": sources}})


def _annotation(made: Manifest, text: Text, size: int) -> None:
    _annotate(made, {_key("long"): text(min(size, ANNOTATION_BYTES // 2))})


def _annotations(made: Manifest, text: Text, size: int) -> None:
    _annotate(made, {_key(name): text(32) for name in _names(min(size, ANNOTATION_BYTES), 108)})


def _own_annotations(made: Manifest, text: Text, size: int) -> None:
    keys = [key for key in dict.fromkeys(our_keys()) if _QUALIFIED.fullmatch(key) and key not in _NOT_OURS]
    _annotate(made, {key: text(min(size, ANNOTATION_BYTES // 2) // len(keys)) for key in keys})


def _env_annotations(made: Manifest, text: Text, size: int) -> None:
    most = min(size, ANNOTATION_BYTES)
    _annotate(made, {f"gpu.topology/env.V{number}": text(16) for number in range(1 + most // 48)})


def _allocation(made: Manifest, text: Text, size: int) -> None:
    keys = ("hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new", "scheduling.koordinator.sh/device-allocated")
    _annotate(made, dict.fromkeys(keys, text(min(size, ANNOTATION_BYTES // 2) // len(keys))))
    _annotate(made, {"hami.io/vgpu-node": "h20-node-1"})


def _labels(made: Manifest, _: Text, size: int) -> None:
    made["metadata"].setdefault("labels", {}).update({_key(name): name for name in _names(size, 144)})


def _node_affinity(made: Manifest, _: Text, size: int) -> None:
    expression = {"key": "example.com/zone", "operator": "In", "values": list(_names(size))}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = made["spec"].setdefault("affinity", {})
    affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _pod_affinity(made: Manifest, _: Text, size: int) -> None:
    terms = [
        {"labelSelector": {"matchLabels": {"gpu.topology/group": name}}, "topologyKey": "kubernetes.io/hostname"}
        for name in _names(size, 192)
    ]
    affinity = made["spec"].setdefault("affinity", {})
    affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _tolerations(made: Manifest, _: Text, size: int) -> None:
    made["spec"]["tolerations"] = [{"key": _key(name), "operator": "Exists"} for name in _names(size, 128)]


def _gates(made: Manifest, _: Text, size: int) -> None:
    made["spec"]["schedulingGates"] = [{"name": _key(name)} for name in _names(size, 96)]


def _node_selector(made: Manifest, _: Text, size: int) -> None:
    made["spec"]["nodeSelector"] = {_key(name): name for name in _names(size, 144)}


def _hosts(made: Manifest, _: Text, size: int) -> None:
    made["spec"]["hostAliases"] = [{"ip": "127.0.0.1", "hostnames": list(_names(size))}]


def _resources(made: Manifest, _: Text, size: int) -> None:
    _container(made)["resources"]["limits"].update({_key(name): 1 for name in _names(size, 96)})


def _quantity(made: Manifest, _: Text, size: int) -> None:
    _container(made)["resources"]["limits"]["memory"] = "0" * size + "1Gi"


def _number_of_gpus(made: Manifest, _: Text, size: int) -> None:
    _container(made)["resources"]["limits"]["nvidia.com/gpu"] = "0" * size + "2"


def _ports(made: Manifest, _: Text, size: int) -> None:
    _container(made)["ports"] = [{"containerPort": 1 + n % 65535} for n in range(1 + size // 24)]


def _groups(made: Manifest, _: Text, size: int) -> None:
    made["spec"]["securityContext"] = {"supplementalGroups": list(range(10**8, 10**8 + 1 + size // 10))}


def _owners(made: Manifest, _: Text, size: int) -> None:
    kind = {"apiVersion": "batch/v1", "kind": "Job"}
    owners = [kind | {"name": name, "uid": name} for name in _names(size, 208)]
    made["metadata"]["ownerReferences"] = owners


def _finalizers(made: Manifest, _: Text, size: int) -> None:
    made["metadata"]["finalizers"] = [_key(name) for name in _names(size, 80)]


def _claims(made: Manifest, _: Text, size: int) -> None:
    claims = list(_names(size, 256))
    made["spec"]["resourceClaims"] = [{"name": name, "resourceClaimTemplateName": name} for name in claims]
    _container(made)["resources"]["claims"] = [{"name": name} for name in claims]


def _directory(made: Manifest, text: Text, size: int) -> None:
    _container(made)["workingDir"] = text(size)


def _dns(made: Manifest, text: Text, size: int) -> None:
    options = [{"name": "x", "value": text(32)} for _ in range(1 + size // 56)]
    made["spec"]["dnsConfig"] = {"options": options}


FIELDS: Mapping[str, Fill] = {
    "arguments": _arguments,
    "words": _words,
    "probe": _probe,
    "hook": _hook,
    "headers": _headers,
    "variable": _variable,
    "variables": _variables,
    "equal variables": _equal_variables,
    "long variable": _long_variable,
    "downward variables": _downward,
    "sources of variables": _sources,
    "containers": _containers,
    "few containers": _few_containers,
    "privileged containers": _privileged_containers,
    "variables of containers": _variables_of_containers,
    "init containers": _init_containers,
    "remap containers": _remap_containers,
    "volumes": _volumes,
    "shared memory": _shared_memory,
    "projected": _projected,
    "annotation": _annotation,
    "annotations": _annotations,
    "own annotations": _own_annotations,
    "env annotations": _env_annotations,
    "allocation": _allocation,
    "labels": _labels,
    "node affinity": _node_affinity,
    "pod affinity": _pod_affinity,
    "tolerations": _tolerations,
    "gates": _gates,
    "node selector": _node_selector,
    "hosts": _hosts,
    "resources": _resources,
    "quantity": _quantity,
    "number of GPUs": _number_of_gpus,
    "ports": _ports,
    "groups": _groups,
    "owners": _owners,
    "finalizers": _finalizers,
    "claims": _claims,
    "directory": _directory,
    "dns": _dns,
}
"""The fields of a pod that have no limit of their own, or a large one."""
TEXTUAL = frozenset(
    {"arguments", "words", "probe", "hook", "headers", "variable", "variables", "equal variables", "few containers"}
    | {"privileged containers", "variables of containers", "annotation", "annotations", "own annotations"}
    | {"env annotations", "allocation", "directory", "dns"}
)
"""The fields in which a text may stand that tells something; in others it is a name, or a word among many."""

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

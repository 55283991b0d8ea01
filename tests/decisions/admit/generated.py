"""Pods, namespaces, clusters and configurations for property tests: everything that a user may write, and worse."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from hypothesis import strategies as st

from tests.hardware.topology.machines import H20_UUIDS, h20
from tests.judge import policy
from tests.pods import SHARED_MEMORY, Manifest
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.objects.claims import ClaimSpec
from webhook.objects.pod import Namespace
from webhook.words.version import Version

H20_NODE = "h20-node-1"
_H20 = Sources(published=KnownNode(h20(), origin=Origin.AGENT))


def nodes(name: str) -> Sources:
    """What is known of nodes: one machine."""
    return _H20 if name == H20_NODE else Sources()


GPU_RESOURCES = (
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "volcano.sh/vgpu-number",
    "volcano.sh/vgpu-memory",
    "volcano.sh/vgpu-memory-percentage",
    "volcano.sh/vgpu-cores",
)

OPTION_VALUES = {
    "inject": ("true", "true", "false", "yes"),
    "profile": ("exclusive", "pod-peers", "node-peers", "observe", "pod-peers", "node-peers", "best"),
    "policy": ("best-effort", "nvlink", "single-numa", "spread", "fast"),
    "require-nvlink": ("true", "false", "1"),
    "min-bandwidth": ("100", "0.5", "-1"),
    "on-violation": ("warn", "deny", "panic"),
    "nvls": ("auto", "on", "off", "ON"),
    "nccl-p2p-level": ("auto", "NVL", "PXB", "SYS", "LOC"),
    "topology-file": ("true", "false", "no"),
    "host-ipc": ("true", "false", ""),
    "host-pid": ("true", "false", "host"),
    "host-network": ("true", "false", "host"),
    "shm-size": ("16Gi", "64M", "0"),
    "remap": ("auto", "init", "sidecar", "binding", "daemon"),
    "containers": ("train", "train,decode", "prefill", ","),
    "group": ("serving-1", "a b"),
    "colocate": ("required", "preferred", "maybe"),
    "place": ("auto", "off", "on"),
    "group-size": ("4", "0"),
    "placed": ("{}", "forged"),
    "env.NCCL_DEBUG": ("INFO", "WARN", ""),
    "env.UCX_TLS": ("cuda_ipc,sm", "", "all"),
    "env.PYTORCH_CUDA_ALLOC_CONF": ("expandable_segments:True",),
    "env.NVIDIA_VISIBLE_DEVICES": ("all",),
    "injected": ("0.1.0 exclusive", "0.0.9 pod-peers", "who knows"),
    "cuda-visible-devices.0": ("0,1", "7"),
    "visible-uuids": ("GPU-1", "all"),
    "link": ("NVSwitch", "x"),
    "nccl-env.NCCL_ALGO": ("Tree", ""),
    "nccl-nvls": ("1", "x"),
    "node-topology": ("{}", "no json"),
    "min-bandwith": ("100",),
    "unheard-of": ("1",),
}
BAD_SHARE = 12
"""One option in so many is drawn with a value that may be bad."""

GOOD_VALUES = {name: values[:-1] if len(values) > 1 else values for name, values in OPTION_VALUES.items()}
USUAL_OPTIONS = tuple(name for name in OPTION_VALUES if not name.startswith(("env.NVIDIA", "inject")))


def once_in(number: int) -> st.SearchStrategy[bool]:
    """True once in about so many draws; in the middle, because the ends of a range are drawn more often."""
    half = number // 2
    return st.sampled_from([False] * half + [True] + [False] * (number - half - 1))


_scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["", "text", "ünïcode ☃", "a/b~c"]))
_json = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["x", "x/y", "x~1", "containers"]), inner, max_size=2),
    ),
    max_leaves=4,
)
_unknown_fields = st.one_of(
    st.just({}),
    st.just({}),
    st.dictionaries(st.sampled_from(["xUnknown", "x~0unknown", "future/field", "x.y", ""]), _json, max_size=2),
)
_keys = st.sampled_from(
    ["app", "a~b", "example.com/a.b_c-d", "x/~0~1", "...", "app.kubernetes.io/name", "sidecar.istio.io/inject", "ünï"]
)

_variable_names = st.sampled_from(
    ["PATH", "NCCL_DEBUG", "UCX_TLS", "MASTER_ADDR", "A", "B", "my.var-1"] * 2
    + ["NCCL_P2P_LEVEL", "NCCL_NVLS_ENABLE", "NCCL_TOPO_FILE", "NCCL_ALGO", "PYTORCH_CUDA_ALLOC_CONF"]
)
_touchy_names = st.sampled_from(
    [
        "CUDA_DISABLE_CONTROL",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "NVIDIA_VISIBLE_DEVICES",
        "NCCL_HOSTID",
        "NCCL_CUMEM_ENABLE",
        "GPU_TOPOLOGY_PROFILE",
    ]
)
_sources = st.sampled_from(
    [
        {"fieldRef": {"fieldPath": "spec.nodeName"}},
        {"fieldRef": {"fieldPath": "metadata.annotations['gpu.topology/nccl-p2p-level']", "apiVersion": "v1"}},
        {"fieldRef": {"fieldPath": "metadata.annotations['gpu.topology/cuda-visible-devices.1']"}},
        {"fieldRef": {"fieldPath": "metadata.annotations['gpu.topology/nccl-env.NCCL_ALGO']"}},
        {"fileKeyRef": {"volumeName": "gpu-topology", "path": "env", "key": "NCCL_P2P_LEVEL"}},
        {"fileKeyRef": {"volumeName": "gpu-topology", "path": "env", "key": "CUDA_VISIBLE_DEVICES_1"}},
        {"fileKeyRef": {"volumeName": "data", "path": "a/b~c", "key": "NVIDIA_VISIBLE_DEVICES", "optional": True}},
        {"secretKeyRef": {"name": "s", "key": "k~/."}},
        {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}},
        {"resourceFieldRef": {"resource": "limits.cpu"}},
    ]
)


@st.composite
def _variable(draw: st.DrawFn, names: st.SearchStrategy[str]) -> Manifest:
    entry: Manifest = {"name": draw(names)}
    match draw(st.integers(0, 9)):
        case 0:
            entry["valueFrom"] = draw(_sources)
        case 1:
            entry["value"] = None
        case 2:
            pass
        case _:
            entry["value"] = draw(st.sampled_from(["", "0", "1", "true", "t", "none", "all", "0,1", "NVL", "secret"]))
    return {**entry, **draw(_unknown_fields)}


@st.composite
def _environment(draw: st.DrawFn) -> list[Manifest] | None:
    entries = draw(st.lists(_variable(_variable_names), max_size=4))
    if draw(once_in(10)):
        entries.insert(draw(st.integers(0, len(entries))), draw(_variable(_touchy_names)))
    if not entries and draw(st.booleans()):
        return None
    return entries


@st.composite
def _mount(draw: st.DrawFn) -> Manifest:
    paths = [
        "/data",
        "/data/",
        "/run",
        "/dev",
        "/workspace",
        "/a~b",
        "/data",
        "/workspace",
        SHARED_MEMORY,
        "/run/gpu-topology",
    ]
    name = draw(st.sampled_from(["data", "shm", "gpu-topology", "gpu-topology-shm"]))
    made: Manifest = {"name": name, "mountPath": draw(st.sampled_from(paths)), **draw(_unknown_fields)}
    if draw(once_in(4)):
        made["readOnly"] = draw(st.sampled_from([True, False, None]))
    return made


_quantities: st.SearchStrategy[Any] = st.sampled_from([2, "2", 4, "8", 1, "1", 2.0, "2.0"])


@st.composite
def _gpu_resources(draw: st.DrawFn) -> Manifest:
    prefix = draw(st.sampled_from(["nvidia.com/gpu", "nvidia.com/gpu", "nvidia.com/gpu", "volcano.sh/vgpu-"]))
    hami = prefix == "nvidia.com/gpu"
    asked = {prefix if hami else prefix + "number": draw(_quantities)}
    match draw(st.sampled_from([9, 9, 9, 0, 9, 1, 9, 2, 9, 3, 9, 4, 5, 9, 9])):
        case 0:
            asked[prefix + ("mem" if hami else "memory")] = draw(st.sampled_from([3000, "10240"]))
        case 1:
            asked[prefix + "cores"] = draw(st.sampled_from([30, "100", 100]))
        case 2:
            asked[prefix + ("mem" if hami else "memory") + "-percentage"] = draw(st.sampled_from([50, "100"]))
        case 3:
            asked = {"nvidia.com/gpumem": "3000"}
        case 4:
            value = draw(st.sampled_from([0, "0", "1k", "two", "1.5", -1, "1" * 40]))
            asked = {"nvidia.com/gpu": value}
        case 5:
            asked = asked if not draw(once_in(4)) else {"nvidia.com/mig-1g.5gb": 1}
        case _:
            pass
    return asked


@st.composite
def _resources(draw: st.DrawFn, *, gpu: bool) -> Manifest:
    asked = draw(_gpu_resources()) if gpu else {}
    plain = {"cpu": "4", "memory": "8Gi", "rdma/hca": 1}
    sections: Manifest = {"limits": plain | asked}
    match draw(st.integers(0, 5)):
        case 0:
            sections = {"requests": dict(asked)}
        case 1:
            sections["requests"] = dict(asked)
        case 2:
            sections["requests"] = None
        case 3:
            sections = {"requests": plain | asked, "limits": None}
        case _:
            pass
    return {**sections, **draw(_unknown_fields)}


@st.composite
def _container(draw: st.DrawFn, name: str, *, gpu: bool, init: bool) -> Manifest:
    made: Manifest = {"name": name, "image": "registry.local/app:1"}
    if gpu or draw(st.booleans()):
        made["resources"] = draw(_resources(gpu=gpu))
    elif draw(once_in(4)):
        made["resources"] = None
    if draw(st.booleans()):
        made["env"] = draw(_environment())
    if draw(st.booleans()):
        made["volumeMounts"] = draw(st.one_of(st.none(), st.lists(_mount(), max_size=2)))
    if draw(once_in(4)):
        made["securityContext"] = {"privileged": draw(st.sampled_from([True, False, None]))} | draw(_unknown_fields)
    if init and draw(st.booleans()):
        made["restartPolicy"] = "Always"
    if draw(once_in(6)):
        made["envFrom"] = [{"configMapRef": {"name": "c"}}]
        made["lifecycle"] = {"preStop": {"exec": {"command": ["true"]}}}
    return {**made, **draw(_unknown_fields)}


@st.composite
def _volumes(draw: st.DrawFn) -> list[Manifest] | None:
    sources: list[Manifest] = [
        {"emptyDir": {}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": 8589934592}},
        {"emptyDir": {"sizeLimit": "8Mi"}},
        {"emptyDir": None, "hostPath": {"path": SHARED_MEMORY}},
        {"configMap": {"name": "c", "items": None}},
    ]
    names = draw(
        st.lists(st.sampled_from(["data", "shm", "gpu-topology", "gpu-topology-shm"]), unique=True, max_size=3)
    )
    if not names and draw(st.booleans()):
        return None
    return [{"name": name} | draw(st.sampled_from(sources)) | draw(_unknown_fields) for name in names]


@st.composite
def options(draw: st.DrawFn) -> dict[str, str]:
    """Some of our annotations; now and then with a bad value."""
    found: dict[str, str] = {}
    for name in draw(st.lists(st.sampled_from(USUAL_OPTIONS), unique=True, max_size=4)):
        values = OPTION_VALUES if draw(once_in(BAD_SHARE)) else GOOD_VALUES
        found[f"gpu.topology/{name}"] = draw(st.sampled_from(values[name]))
    if not draw(once_in(3)):
        found["gpu.topology/profile"] = draw(st.sampled_from(GOOD_VALUES["profile"]))
    if draw(once_in(6)):
        name = draw(st.sampled_from(["inject", "injected", "env.NVIDIA_VISIBLE_DEVICES"]))
        found[f"gpu.topology/{name}"] = draw(st.sampled_from(OPTION_VALUES[name]))
    return found


_term = {"labelSelector": {"matchLabels": {"a~/b": "1"}}, "topologyKey": "zone"}
_affinities: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        {"podAffinity": None, "nodeAffinity": {"x": [1]}},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
        {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term], "xUnknown": 1}},
        {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}},
        {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": _term}]}},
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term]}},
    ]
)


def _asked(spec: Manifest) -> int:
    """GPUs that a container asks for, as far as that is easily told."""
    sections = spec.get("resources") or {}
    for section in (sections.get("limits"), sections.get("requests")):
        for resource, value in (section or {}).items():
            if resource in ("nvidia.com/gpu", "volcano.sh/vgpu-number"):
                return int(value) if value in (1, 2, 4, "1", "2", "8") else 1
    return 0


@st.composite
def _allocation(draw: st.DrawFn, containers: list[Manifest]) -> dict[str, str]:
    """What a scheduler, or whoever created the pod, says of its GPUs; now and then something that does not fit."""
    uuids = draw(st.permutations(H20_UUIDS))
    start, segments = 0, []
    for container in containers:
        devices = [f"{uuids[(start + index) % 8]},NVIDIA,97871,100:" for index in range(_asked(container))]
        start += len(devices)
        segments.append("".join(devices))
    text = ";".join(segments) + ";"
    if draw(once_in(6)):
        text = draw(st.sampled_from(["", ";", "x", text.replace("97871", "much"), text + text]))
    node = draw(st.sampled_from([H20_NODE] * 8 + ["elsewhere", ""]))
    if draw(once_in(4)):
        return {"volcano.sh/vgpu-node": node, "volcano.sh/vgpu-ids-new": text.removesuffix(";")}
    return {"hami.io/vgpu-node": node, "hami.io/vgpu-devices-allocated": text}


@st.composite
def _metadata(draw: st.DrawFn) -> Manifest:
    made: Manifest = draw(st.sampled_from([{"name": "train"}, {"generateName": "train-"}, {"name": None}, {}]))
    annotations: Any = draw(options()) | draw(st.dictionaries(_keys, st.just("v~/"), max_size=2))
    labels: Any = draw(st.dictionaries(_keys, st.just("v"), max_size=2))
    if draw(once_in(16)):
        labels["gpu.topology/group"] = "serving-1"
    if draw(once_in(12)):
        labels["gpu.topology/placement"] = draw(st.sampled_from(["waiting", "pinned", "x"]))
    if not annotations and draw(st.booleans()):
        annotations = None
    if not labels and draw(st.booleans()):
        labels = None
    return {**made, "annotations": annotations, "labels": labels, **draw(_unknown_fields)}


_KUEUE, _OURS = {"name": "kueue.x-k8s.io/admission"}, {"name": "gpu.topology/place"}


@st.composite
def _spec_fields(draw: st.DrawFn) -> Manifest:
    made: Manifest = {}
    for field, values in (
        ("hostIPC", [True, False, None]),
        ("hostPID", [True, False, None]),
        ("hostNetwork", [True, False, None]),
        ("shareProcessNamespace", [True, True, None, False]),
        ("dnsPolicy", ["ClusterFirst", "None", "Default", None]),
        ("runtimeClassName", ["nvidia", None, ""]),
        ("schedulingGates", [None, [], [_KUEUE], [_KUEUE, _OURS], [_OURS]]),
    ):
        if draw(once_in(8)):
            made[field] = draw(st.sampled_from(values))
    if draw(once_in(3)):
        made["affinity"] = draw(_affinities)
    if draw(st.booleans()):
        made["volumes"] = draw(_volumes())
    return {**made, **draw(_unknown_fields)}


@st.composite
def pods(draw: st.DrawFn, *, gpus: bool = True) -> Manifest:
    """A pod; without ``gpus`` no container asks for one."""
    names = iter(draw(st.permutations(["train", "decode", "prefill", "helper", "gpu-topology-remap", "setup"])))
    containers: list[Manifest] = []
    inits: list[Manifest] = []
    for index in range(draw(st.integers(1, 3))):
        wants = gpus and (index == 0 or draw(st.booleans()))
        containers.append(draw(_container(next(names), gpu=wants, init=False)))
    for _ in range(draw(st.integers(0, 2))):
        wants = gpus and draw(once_in(3))
        inits.append(draw(_container(next(names), gpu=wants, init=True)))
    spec: Manifest = {"containers": containers}
    if bool(inits) or draw(st.booleans()):
        absent: Any = None if draw(st.booleans()) else []
        spec["initContainers"] = inits or absent
    spec.update(draw(_spec_fields()))
    metadata = draw(_metadata())
    if draw(once_in(4)):
        metadata["annotations"] = (metadata["annotations"] or {}) | draw(_allocation([*inits, *containers]))
        spec["nodeName"] = draw(st.sampled_from([None, None, None, H20_NODE, H20_NODE, "", "elsewhere"]))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **draw(_unknown_fields)}


def _spec_of_claim(*requests: Manifest, sharing: str = "") -> ClaimSpec:
    parameters = {"driver": "gpu.nvidia.com", "parameters": {"sharing": {"strategy": sharing}}}
    config = [{"opaque": parameters}] if sharing else []
    return msgspec.convert({"devices": {"requests": list(requests), "config": config}}, ClaimSpec)


def _request(name: str = "gpus", device_class: str = "gpu.nvidia.com", **fields: Any) -> Manifest:
    return {"name": name, "exactly": {"deviceClassName": device_class, **fields}}


CLAIM_SPECS: Mapping[str, ClaimSpec | None] = MappingProxyType(
    {
        "two": _spec_of_claim(_request(count=2)),
        "four": _spec_of_claim(_request(count=4)),
        "several": _spec_of_claim(_request("first", count=2), _request("second")),
        "all": _spec_of_claim(_request(allocationMode="All")),
        "admin": _spec_of_claim(_request(allocationMode="All", adminAccess=True)),
        "mig": _spec_of_claim(_request(device_class="mig.nvidia.com")),
        "mps": _spec_of_claim(_request(count=2), sharing="MPS"),
        "hami": _spec_of_claim(_request(device_class="hami-core-gpu.project-hami.io", count=2)),
        "nic": _spec_of_claim(_request(device_class="nic.example.com")),
        "unread": None,
    }
)
"""What the claims of drawn pods ask for, by the names of the entries."""
_entries = st.sampled_from(["two", "four", "two", "four", "several", *CLAIM_SPECS])


@st.composite
def _claims_of_container(draw: st.DrawFn, entries: list[str]) -> list[Manifest]:
    uses = []
    for entry in draw(st.lists(st.sampled_from(entries), unique=True, min_size=1, max_size=2)):
        request = draw(st.sampled_from(["", "first", "second"])) if entry == "several" else ""
        uses.append({"name": entry, "request": request} if request else {"name": entry})
    return uses


@st.composite
def claim_pods(draw: st.DrawFn) -> Manifest:
    """A pod whose containers get devices by claims; few of them ask for GPUs by a count too."""
    pod: Manifest = draw(pods(gpus=draw(once_in(8))))
    entries = draw(st.lists(_entries, unique=True, min_size=1, max_size=3))
    kinds = st.sampled_from(["resourceClaimTemplateName", "resourceClaimName"])
    spec = pod["spec"]
    spec["resourceClaims"] = [{"name": entry, draw(kinds): f"{entry}-gpus"} for entry in entries]
    used = draw(_claims_of_container(entries))
    for position, container in enumerate([*spec["containers"], *(spec.get("initContainers") or [])]):
        if position and draw(st.booleans()):
            continue
        uses = used if draw(st.booleans()) else draw(_claims_of_container(entries))
        container["resources"] = {**(container.get("resources") or {}), "claims": uses}
    if draw(once_in(8)):
        pod["metadata"]["labels"] = (pod["metadata"]["labels"] or {}) | {"hami.io/dra": "true"}
    return pod


@st.composite
def namespaces(draw: st.DrawFn, *, permissions: bool = True) -> Namespace:
    """A namespace; without ``permissions`` an administrator has allowed it nothing."""
    labels = {"gpu.topology/injection": "enabled"} if not draw(once_in(16)) else {}
    generous = permissions and draw(st.booleans())
    for permission in ("host-ipc", "host-pid", "host-network", "node-gpus"):
        if generous or (permissions and draw(once_in(4))):
            labels[f"gpu.topology/allow-{permission}"] = "true"
        elif draw(once_in(8)):
            labels[f"gpu.topology/allow-{permission}"] = draw(st.sampled_from(["false", "True", "1", ""]))
    if draw(once_in(4)):
        labels["pod-security.kubernetes.io/enforce"] = draw(st.sampled_from(["privileged", "baseline", "restricted"]))
    annotations = draw(options()) if draw(once_in(4)) else {}
    return Namespace("team-a", labels, annotations, known=not draw(once_in(30)))


clusters = st.builds(
    lambda hami, kubernetes, claimed, has_hami_dra, has_planner: ClusterFacts(
        hami=hami, kubernetes=kubernetes, claimed=claimed, has_hami_dra=has_hami_dra, has_planner=has_planner
    ),
    st.sampled_from(
        [
            None,
            *(Version(2, minor, patch) for minor, patch in ((5, 0), (6, 1), (7, 0), (8, 0), (9, 0), (10, 0), (10, 1))),
        ]
    ),
    st.sampled_from([None, Version(1, 28), Version(1, 33), Version(1, 35)]),
    st.sampled_from([None, None, None, frozenset[str](), frozenset({"nvidia.com/gpu"})]),
    st.sampled_from([False, False, False, True]),
    st.booleans(),
)

_koordinator = {
    "family": "koordinator",
    "count": "nvidia.com/gpu",
    "memory": "koordinator.sh/gpu-memory",
    "memoryPercentage": "koordinator.sh/gpu-memory-ratio",
    "cores": "koordinator.sh/gpu-core",
}
_tables: Manifest = {
    "nvswitch": {"NCCL_ALGO": "NVLS", "NCCL_MIN_NCHANNELS": "16"},
    "nvlink": {"NCCL_ALGO": "Ring", "NCCL_MIN_NCHANNELS": "16"},
    "pcie": {"NCCL_ALGO": "Ring", "NCCL_MIN_NCHANNELS": "16"},
    "multinode": {"NCCL_IB_HCA": "mlx5"},
}
_CLAIMS = {"enabled": True}
claim_policies: st.SearchStrategy[AdmitPolicy] = st.sampled_from(
    [
        policy(claims=_CLAIMS),
        policy(claims=_CLAIMS),
        policy(claims=_CLAIMS, defaults={"inject": "true"}),
        policy(claims=_CLAIMS, defaults={"profile": "pod-peers"}, placement={"mode": "on"}),
        policy(claims=_CLAIMS, remap={"runtimeClassName": "nvidia", "seesGpus": False}),
        policy(claims=_CLAIMS, remap={"environment": "file"}, nccl=_tables),
        policy(),
    ]
)
policies: st.SearchStrategy[AdmitPolicy] = st.sampled_from(
    [
        policy(),
        policy(),
        policy(placement={"mode": "on"}),
        policy(placement={"mode": "on"}),
        policy(placement={"mode": "off"}),
        policy(defaults={"inject": "true", "shm-size": "4Gi"}),
        policy(defaults={"profile": "pod-peers", "env.NCCL_DEBUG": "VERSION", "env.A": ""}),
        policy(nccl=_tables),
        policy(nccl={"nvswitch": {"NCCL_NVLS_ENABLE": "1"}, "pcie": {"NCCL_PROTO": "Simple"}}),
        policy(remap={"runtimeClassName": "nvidia", "seesGpus": False, "imagePullPolicy": "Always"}),
        policy(cluster={"deviceListStrategy": "cdi-cri", "defaultCount": 2}),
        policy(cluster={"hamiVersion": "2.10.0", "kubernetesVersion": "1.33"}),
        policy(cluster={"kubernetesVersion": "1.35"}, remap={"environment": "file"}),
        policy(remap={"environment": "file"}, nccl=_tables | {"pcieP2PLevel": "PHB"}),
        policy(resources=[_koordinator], cluster={"kubernetesVersion": "1.35"}),
    ]
)

"""Twice as much of anything is at most two and a half times the work: nothing is looked for again and again.

The limits of the configuration are out of the way here: what they allow must be as cheap as it is.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.budget.work import instructions
from tests.decisions.bind.test_binding import injected
from tests.hardware.topology.machines import H20_UUIDS, h20
from tests.judge import HAMI_2_9, policy
from tests.pods import ALL_ALLOWED, Manifest, container, pod
from webhook.decisions.admit.admission import admit
from webhook.decisions.allocation.limit import BY_LENGTH
from webhook.decisions.allocation.reader import read_allocation
from webhook.decisions.bind.binding import begin, finish
from webhook.decisions.bind.pod_to_bind import PodToBind
from webhook.decisions.bind.resolution import peer_devices
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.resolve.node import KnownNode, Origin, Sources
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.readers.hami import read_hami
from webhook.objects.binding import Binding, Target
from webhook.objects.claims import ClaimSpec
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import MalformedPod, Metadata, Pod
from webhook.objects.review import encode_reply
from webhook.words import names
from webhook.words.errors import FormatError
from webhook.words.version import Version

MOST = 2.5
HUGE = 10**9
LIMITS = dict.fromkeys(("containers", "envAnnotations", "replyBytes", "segments", "devices", "links"), HUGE) | {
    "gpus": 64
}
RULES = policy(limits=LIMITS)
HAMI_2_10_0 = ClusterFacts(hami=Version(2, 10), kubernetes=Version(1, 33))
H20 = Sources(published=KnownNode(h20(), origin=Origin.AGENT))
PEERS = {"gpu.topology/profile": "pod-peers"}
ALLOCATED = "hami.io/vgpu-devices-allocated"
MIG = "hami.io/vgpu-mig-allocations"
BOUND = {"hami.io/vgpu-node": "h20-node-1"}


def named(count: int, prefix: str = "v") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def literals(count: int) -> list[Manifest]:
    return [{"name": name, "value": "x"} for name in named(count, "V")]


def annotated(count: int, prefix: str, **others: str) -> dict[str, str]:
    return {f"{prefix}{number}": "x" for number in range(count)} | others


def referring(count: int) -> list[Manifest]:
    path = "metadata.annotations['gpu.topology/nccl-env.V{}']"
    return [{"name": f"V{n}", "valueFrom": {"fieldRef": {"fieldPath": path.format(n)}}} for n in range(count)]


def mounts(count: int) -> list[Manifest]:
    return [{"name": name, "mountPath": f"/mnt/{name}"} for name in named(count)]


def at_shared_memory(count: int) -> list[Manifest]:
    return [container(name, volumeMounts=[{"name": name, "mountPath": "/dev/shm"}]) for name in named(count)]  # noqa: S108 - a path in a pod


def affinity(field: str, terms: list[Manifest]) -> Manifest:
    return {"podAffinity": {field: terms}}


def selecting(label: str) -> Manifest:
    return {"labelSelector": {"matchLabels": {label: "x"}}, "topologyKey": "kubernetes.io/hostname"}


def segments(count: int, devices: int = 1) -> str:
    numbers = iter(range(count * devices))
    return "".join("".join(f"GPU-{next(numbers)},NVIDIA,0,0:" for _ in range(devices)) + ";" for _ in range(count))


def cut(count: int, gpus: int) -> str:
    return json.dumps([{"gpuUUID": f"GPU-{n % gpus}", "profile": f"{n}g"} for n in range(count)])


PODS: dict[str, Callable[[int], Manifest]] = {
    "containers": lambda n: pod(*map(container, named(n))),
    "containers without a GPU": lambda n: pod(container(), *(container(name, None) for name in named(n))),
    "containers that share GPUs": lambda n: pod(*map(container, named(n)), annotations=PEERS),
    "containers that are left out": lambda n: pod(
        *map(container, named(n)), annotations={"gpu.topology/containers": "v0", "gpu.topology/inject": "true"}
    ),
    "containers that are named": lambda n: pod(
        *map(container, named(n)), annotations={"gpu.topology/containers": ",".join(named(n))}
    ),
    "names that no container has": lambda n: pod(annotations={"gpu.topology/containers": ",".join(named(n))}),
    "containers with volumes at /dev/shm": lambda n: pod(*at_shared_memory(n)),
    "containers of one volume at /dev/shm": lambda n: pod(
        *(container(name, volumeMounts=[{"name": "v", "mountPath": "/dev/shm"}]) for name in named(n)),  # noqa: S108 - a path in a pod
        annotations=PEERS,
    ),
    "text of a command": lambda n: pod(
        container(args=["-c", "echo $CUDA_VISIBLE_DEVICES\n" * n + "x\u00e9"]), annotations=PEERS
    ),
    "words of a command": lambda n: pod(container(args=named(n, "CUDA_VISIBLE_DEVICES=$")), annotations=PEERS),
    "commands of containers": lambda n: pod(
        *(container(name, args=["-c", "CUDA_VISIBLE_DEVICES=0 train"]) for name in named(n)), annotations=PEERS
    ),
    "privileged containers": lambda n: pod(
        *(container(name, securityContext={"privileged": True}) for name in named(n))
    ),
    "init containers": lambda n: pod(initContainers=[container(name, None) for name in named(n)]),
    "init containers with GPUs": lambda n: pod(initContainers=[container(name) for name in named(n)]),
    "init containers named like ours": lambda n: pod(
        initContainers=[
            container(f"gpu-topology-remap-{number}", None, command=["gpu-topology"], env=literals(3))
            for number in range(n)
        ]
    ),
    "sidecars": lambda n: pod(initContainers=[container(name, None, restartPolicy="Always") for name in named(n)]),
    "variables of a container": lambda n: pod(container(env=literals(n))),
    "variables of containers": lambda n: pod(*(container(name, env=literals(20)) for name in named(n))),
    "variables that refer to outputs": lambda n: pod(
        container(env=referring(n)), annotations=annotated(n, "gpu.topology/nccl-env.V")
    ),
    "env annotations": lambda n: pod(annotations=annotated(n, "gpu.topology/env.V")),
    "env annotations that replace": lambda n: pod(
        container(env=[{"name": name, "value": "y"} for name in named(n, "V")]),
        annotations=annotated(n, "gpu.topology/env.V"),
    ),
    "env annotations that say what stands there": lambda n: pod(
        container(env=literals(n)), annotations=annotated(n, "gpu.topology/env.V")
    ),
    "unknown annotations": lambda n: pod(annotations=annotated(n, "gpu.topology/inejct")),
    "annotations of others": lambda n: pod(annotations=annotated(n, "example.com/a")),
    "outputs that nobody refers to": lambda n: pod(annotations=annotated(n, "gpu.topology/nccl-env.V")),
    "labels": lambda n: pod(labels=annotated(n, "example.com/a"), annotations={"gpu.topology/group": "g"}),
    "resources": lambda n: pod(container(resources={"limits": annotated(n, "example.com/a") | {"nvidia.com/gpu": 2}})),
    "volumes": lambda n: pod(volumes=[{"name": name, "emptyDir": {}} for name in named(n)]),
    "volumes named like ours": lambda n: pod(
        volumes=[{"name": "gpu-topology" + (f"-{k}" if k > 1 else ""), "emptyDir": {}} for k in range(1, n + 1)]
    ),
    "volumes that are ours but for who mounts them": lambda n: pod(
        container(volumeMounts=[{"name": f"gpu-topology-{k}", "mountPath": f"/{k}"} for k in range(2, n + 2)]),
        volumes=[{"name": f"gpu-topology-{k}", "emptyDir": {"sizeLimit": "8Mi"}} for k in range(2, n + 2)],
    ),
    "mounts": lambda n: pod(container(volumeMounts=mounts(n)), volumes=[{"name": "v0", "emptyDir": {}}]),
    "affinity terms": lambda n: pod(
        annotations={"gpu.topology/group": "g"},
        affinity=affinity("requiredDuringSchedulingIgnoredDuringExecution", [*map(selecting, named(n))]),
    ),
    "weighted affinity terms": lambda n: pod(
        annotations={"gpu.topology/group": "g", "gpu.topology/colocate": "preferred"},
        affinity=affinity(
            "preferredDuringSchedulingIgnoredDuringExecution",
            [{"weight": 1, "podAffinityTerm": selecting(name)} for name in named(n)],
        ),
    ),
    "selected labels": lambda n: pod(
        annotations={"gpu.topology/group": "g"},
        affinity=affinity(
            "requiredDuringSchedulingIgnoredDuringExecution",
            [{"labelSelector": {"matchLabels": annotated(n, "v")}, "topologyKey": "kubernetes.io/hostname"}],
        ),
    ),
    "characters of the pod's name": lambda n: (
        pod(annotations=annotated(200, "gpu.topology/x"))
        | {"metadata": {"name": "p" * (100 * n), "annotations": annotated(200, "gpu.topology/x")}}
    ),
    "characters of a container's name": lambda n: pod(container("c" * (100 * n), env=literals(20))),
    "segments of the allocation": lambda n: pod(
        *(container(name, 1) for name in named(n)), annotations={**BOUND, ALLOCATED: segments(n)}
    ),
    "devices of the allocation": lambda n: pod(container("train", n), annotations={**BOUND, ALLOCATED: segments(1, n)}),
    "MIG instances of one GPU": lambda n: pod(
        container("train", 1), annotations={**BOUND, ALLOCATED: segments(1), MIG: cut(n, 1)}
    ),
    "MIG instances of many GPUs": lambda n: pod(
        container("train", n), annotations={**BOUND, ALLOCATED: segments(1, n), MIG: cut(n, n)}
    ),
    "torn MIG instances": lambda n: pod(
        container("train", n),
        annotations={**BOUND, ALLOCATED: segments(1, n), MIG: "[" + " ".join(f"GPU-x{k}" for k in range(n))},
    ),
}


def decode(manifest: Manifest) -> Pod:
    found: Pod = msgspec.json.decode(to_json(manifest), type=Pod)
    return found


def of_admission(manifest: Manifest) -> Callable[[], bytes]:
    found = decode(manifest)

    def work() -> bytes:
        try:
            return encode_reply("uid", admit(found, ALL_ALLOWED, RULES, HAMI_2_9, nodes=lambda _: H20))
        except MalformedPod as error:
            return str(error).encode()

    return work


def of_binding(manifest: Manifest, sources: Sources = H20) -> Callable[[], object]:
    manifest["metadata"].setdefault("annotations", {})["gpu.topology/injected"] = "0.1.0 exclusive"
    found, binding = decode(manifest), Binding(Metadata(name="train"), Target("h20-node-1"))

    def work() -> object:
        case = begin(found, binding, ALL_ALLOWED, RULES)
        return finish(case, RULES, sources) if isinstance(case, PodToBind) else case

    return work


def assert_linear(work: Callable[[int], Callable[[], object]], size: int) -> None:
    """A first call pays for what is cached by value, and is not counted."""
    work(size)()
    once, twice = instructions(work(size)), instructions(work(2 * size))
    assert twice <= MOST * once, f"{once} instructions for {size}, {twice} for twice as many"


@pytest.mark.parametrize("dimension", PODS)
def test_admission_takes_time_and_replies_with_the_size_of_the_pod(dimension: str) -> None:
    assert_linear(lambda size: of_admission(PODS[dimension](size)), 60)
    once, twice = (len(of_admission(PODS[dimension](size))()) for size in (60, 120))
    assert twice <= MOST * once


CLAIMING = policy(limits=LIMITS, claims={"enabled": True})
WHOLE = msgspec.convert(
    {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]}},
    ClaimSpec,
)


def claiming(containers: dict[str, list[str]], kind: str = "resourceClaimTemplateName", **fields: Any) -> Manifest:
    """A pod of containers that use these claims."""
    entries = dict.fromkeys(entry for uses in containers.values() for entry in uses)
    made = [
        container(name, None, resources={"claims": [{"name": entry} for entry in uses]})
        for name, uses in containers.items()
    ]
    return pod(*made, resourceClaims=[{"name": entry, kind: entry} for entry in entries], **fields)


CLAIMS: dict[str, Callable[[int], Manifest]] = {
    "claims of a container": lambda n: claiming({"train": named(n)}),
    "claims that pods share": lambda n: claiming(
        {"train": named(n)}, "resourceClaimName", annotations={"gpu.topology/profile": "node-peers"}
    ),
    "containers with a claim each": lambda n: claiming({name: [name] for name in named(n)}),
    "containers that share a claim": lambda n: claiming({name: ["g"] for name in named(n)}, annotations=PEERS),
    "containers of a group": lambda n: claiming(
        {name: ["g"] for name in named(n)}, "resourceClaimName", annotations={"gpu.topology/group": "serving"}
    ),
}


@pytest.mark.parametrize("dimension", CLAIMS)
def test_admission_takes_time_with_the_number_of_claims(dimension: str) -> None:
    def work(size: int) -> Callable[[], object]:
        found = decode(CLAIMS[dimension](size))
        specs = {entry.name: WHOLE for entry in found.spec.resource_claims} if found.spec else {}
        return lambda: encode_reply("uid", admit(found, ALL_ALLOWED, CLAIMING, HAMI_2_9, claim_specs=specs))

    assert_linear(work, 100)


@pytest.mark.parametrize("dimension", PODS)
def test_a_binding_takes_time_with_the_size_of_the_pod(dimension: str) -> None:
    assert_linear(lambda size: of_binding(PODS[dimension](size)), 60)


@pytest.mark.parametrize("dimension", ["init containers named like ours", "privileged containers"])
def test_what_only_hami_2_10_0_makes_us_look_at_takes_time_with_its_size(dimension: str) -> None:
    def work(size: int) -> Callable[[], object]:
        found = decode(PODS[dimension](size))
        return lambda: admit(found, ALL_ALLOWED, RULES, HAMI_2_10_0)

    assert_linear(work, 100)


def koordinator(count: int) -> str:
    return json.dumps({"gpu": [{"minor": n, "id": f"GPU-{n}", "resources": {"a": "1"}} for n in range(count)]})


ALLOCATIONS: dict[str, tuple[str, Callable[[int], dict[str, str]]]] = {
    "segments": ("hami", lambda n: {ALLOCATED: segments(n)}),
    "devices": ("hami", lambda n: {ALLOCATED: segments(1, n)}),
    "empty segments": ("hami", lambda n: {ALLOCATED: ",,0,0:;" * n}),
    "what is no device": ("hami", lambda n: {ALLOCATED: ":" * (3 * n) + segments(1)}),
    "segments of Volcano": ("volcano", lambda n: {names.VOLCANO_DEVICES_ALLOCATED: segments(n)}),
    "GPUs of Koordinator": ("koordinator", lambda n: {names.KOORDINATOR_DEVICES_ALLOCATED: koordinator(n)}),
    "types of Koordinator": (
        "koordinator",
        lambda n: {names.KOORDINATOR_DEVICES_ALLOCATED: json.dumps({f"t{k}": [] for k in range(n)})},
    ),
    "resources of Koordinator": (
        "koordinator",
        lambda n: {
            names.KOORDINATOR_DEVICES_ALLOCATED: json.dumps(
                {"gpu": [{"minor": 0, "resources": {f"r{k}": 1 for k in range(n)}}]}
            )
        },
    ),
    "MIG instances": ("hami", lambda n: {ALLOCATED: segments(1), MIG: cut(n, 1)}),
    "torn MIG instances": (
        "hami",
        lambda n: {ALLOCATED: segments(1, n), MIG: "[" + " ".join(f"GPU-x{k}" for k in range(n))},
    ),
    "lists in lists": ("koordinator", lambda n: {names.KOORDINATOR_DEVICES_ALLOCATED: "[" * n}),
    "digits": ("koordinator", lambda n: {names.KOORDINATOR_DEVICES_ALLOCATED: '{"gpu":[{"minor":' + "9" * n + "}]}"}),
}


@pytest.mark.parametrize("dimension", ALLOCATIONS)
def test_an_allocation_is_read_in_time_with_its_length(dimension: str) -> None:
    family, made = ALLOCATIONS[dimension]

    def work(size: int) -> Callable[[], object]:
        annotations = made(size)

        def read() -> object:
            try:
                return read_allocation(annotations, family=family, holder="it", limits=BY_LENGTH)
            except FormatError as error:
                return error

        return read

    assert_linear(work, 400)


def test_pods_of_a_group_are_read_in_time_with_their_number() -> None:
    def work(size: int) -> Callable[[], object]:
        others = [
            decode(pod(annotations={ALLOCATED: f"{uuid},NVIDIA,0,0:;"}))
            for uuid in (H20_UUIDS[number % 8] for number in range(size))
        ]
        return lambda: peer_devices(others, "", RULES)

    assert_linear(work, 100)


def test_pods_of_a_group_count_in_time_with_their_number() -> None:
    annotations = {"gpu.topology/profile": "node-peers", "gpu.topology/group": "g"}
    found = injected(container(gpus=1), allocated=f"{H20_UUIDS[0]},NVIDIA,0,0:;", annotations=annotations)
    binding = Binding(Metadata(name="train", uid="uid-1"), Target("h20-node-1"))
    case = begin(found, binding, ALL_ALLOWED, RULES)
    assert isinstance(case, PodToBind)

    def work(size: int) -> Callable[[], object]:
        (device,) = peer_devices([found], "", RULES)
        return lambda: finish(case, RULES, H20, peers=[device] * size)

    assert_linear(work, 2000)


def gpus(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"index": n, "uuid": f"GPU-{n}", "minor": n, **fields} for n in range(count)]


def meshed(count: int) -> list[dict[str, Any]]:
    """Each GPU with links to the seven next to it, around."""
    near = [offset for offset in range(-3, 4) if offset]
    return [
        gpu | {"nvlinks": [{"target": f"GPU{(n + by) % count}", "count": 1, "active": 1} for by in near]}
        for n, gpu in enumerate(gpus(count))
    ]


def bus(number: int) -> str:
    return f"{number:04x}:01:00.0"


TOPOLOGIES: dict[str, tuple[int, Callable[[int], dict[str, Any]]]] = {
    "GPUs": (32, lambda n: {"gpus": gpus(n)}),
    "GPUs with links": (32, lambda n: {"gpus": meshed(n)}),
    "lost GPUs": (32, lambda n: {"lost": [{"index": k, "problem": "x"} for k in range(n)]}),
    "links of a GPU": (
        1000,
        lambda n: {"gpus": gpus(1, nvlinks=[{"target": f"GPU{k}", "count": 1, "active": 1} for k in range(n)])},
    ),
    "the same link": (
        200,
        lambda n: {"gpus": gpus(8, nvlinks=[{"target": "nvswitch", "count": 1, "active": 1}] * n)},
    ),
    "paths of a GPU": (500, lambda n: {"gpus": gpus(1, distance={f"GPU{k}": "SYS" for k in range(n)})}),
    "PCIe switches": (256, lambda n: {"switches": [{"pciBusId": bus(k)} for k in range(n)]}),
    "PCIe switches above each other": (
        16,
        lambda n: {
            "switches": [{"pciBusId": bus(k), "parent": bus(k + 1) if k + 1 < n else ""} for k in range(n)],
            "gpus": gpus(8, parent=bus(0)),
        },
    ),
    "PCIe switches above each other without end": (
        256,
        lambda n: {"switches": [{"pciBusId": bus(k), "parent": bus((k + 1) % n)} for k in range(n)]},
    ),
    "NICs": (64, lambda n: {"nics": [{"name": f"m{k}"} for k in range(n)]}),
    "NVSwitches": (500, lambda n: {"nvswitches": [bus(k) for k in range(n)]}),
    "CPUs of a list": (500, lambda n: {"cpus": [{"numaNode": 0, "affinity": ",".join(["1-2"] * n)}]}),
    "members that nobody knows": (500, lambda n: {f"x{k}": [] for k in range(n)}),
}


@pytest.mark.parametrize("dimension", TOPOLOGIES)
def test_a_topology_is_read_in_time_with_its_length(dimension: str) -> None:
    size, made = TOPOLOGIES[dimension]
    head = {"apiVersion": "gpu.topology/v1", "kind": "NodeTopology", "node": "n", "source": "nvml"}

    def work(size: int) -> Callable[[], object]:
        text = json.dumps(head | made(size))

        def read() -> object:
            try:
                return parse_topology(text, source="it")
            except FormatError as error:
                return error

        return read

    assert_linear(work, size)


@pytest.mark.parametrize("made", [gpus, meshed], ids=["without-links", "with-links"])
def test_two_gpus_of_a_node_are_judged_in_time_with_the_size_of_the_node(made: Callable[[int], Any]) -> None:
    head = {"apiVersion": "gpu.topology/v1", "kind": "NodeTopology", "node": "h20-node-1", "source": "nvml"}
    two = {**BOUND, ALLOCATED: "GPU-0,NVIDIA,0,0:GPU-1,NVIDIA,0,0:;"}

    def work(size: int) -> Callable[[], object]:
        topology = parse_topology(json.dumps(head | {"gpus": made(size)}), source="it")
        return of_binding(pod(annotations=dict(two)), Sources(published=KnownNode(topology, origin=Origin.AGENT)))

    assert_linear(work, 32)


REGISTERS: dict[str, Callable[[int], str]] = {
    "written-up-to-2.6": lambda n: "".join(f"GPU-{k},10,1,100,NVIDIA H20,0,true:" for k in range(n)),
    "written-since-2.7": lambda n: json.dumps(
        [
            {"id": f"GPU-{k}", "index": k, "count": 1, "devmem": 1, "devcore": 1, "type": "H20", "health": True}
            for k in range(n)
        ]
    ),
}


@pytest.mark.parametrize("form", REGISTERS)
def test_the_gpus_that_hami_registers_are_read_in_time_with_their_number(form: str) -> None:
    def work(size: int) -> Callable[[], object]:
        text = REGISTERS[form](size)
        return lambda: read_hami(text, None, node="n", source="it")

    assert_linear(work, 32)


def test_the_scores_of_hami_are_read_in_time_with_the_number_of_pairs() -> None:
    """Twice as many GPUs are four times as many pairs, and so is the text."""

    def work(size: int) -> Callable[[], object]:
        register = REGISTERS["written-since-2.7"](size)
        rows = [
            {"uuid": f"GPU-{one}", "score": {f"GPU-{other}": 10 for other in range(size) if other != one}}
            for one in range(size)
        ]
        scores = json.dumps(rows)
        return lambda: read_hami(register, scores, node="n", source="it")

    work(32)()
    once, twice = instructions(work(32)), instructions(work(64))
    assert twice <= 2 * MOST * once, f"{once} instructions for 32 GPUs, {twice} for 64"


def test_what_stays_json_is_decoded_once() -> None:
    found = decode(pod(container(env=literals(1), volumeMounts=mounts(1)), initContainers=[container("i")]))
    spec = found.spec
    assert spec is not None
    assert spec.containers is not None
    (one,) = spec.containers
    assert one.env is one.env
    assert one.volume_mounts is one.volume_mounts
    assert spec.init_containers is spec.init_containers
    assert spec.init_container_document(0)["name"] == "i"

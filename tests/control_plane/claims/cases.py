"""States of claims, each brought about at a real cluster, and what of it is kept as a golden case."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from tests.control_plane.claims.bindings import OBSERVED, State
from tests.control_plane.claims.cluster import ClaimsCluster, ClaimsNamespace, results
from tests.control_plane.claims.drivers import (
    HAMI_CLASS,
    MIG_CLASS,
    NVIDIA,
    VERSION,
    Manifest,
    MigDevice,
    hami_slices,
    nvidia_slices,
    slices,
)
from tests.control_plane.claims.objects import (
    ADMIN_ACCESS,
    claim,
    claim_pod,
    container,
    exactly,
    first_available,
    of_claim,
    of_template,
    template,
)
from tests.hardware.topology.machines import a100_pcie_bridged
from tests.programs.server.conftest import until

NODE, TEAM = "a100-bridged", "team"
MINORS = (2, 3, 0, 1)
"""Of the devices of the cards 0 to 3: names of DRA devices follow them, and they need not be NVML's indices."""
NIC = "nic.example.com"
UUID = r'(?<=")[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=")'
TIME = "2026-11-22T10:40:11Z"
SHARE = {"cores": "30", "memory": "4Gi"}
_bridged = a100_pcie_bridged()
BRIDGED = replace(
    _bridged,
    node=NODE,
    gpus=tuple(replace(gpu, minor=minor) for gpu, minor in zip(_bridged.gpus, MINORS, strict=True)),
)
"""Bridges join the cards 0 to 1 and 2 to 3; these are the devices gpu-2 to gpu-3 and gpu-0 to gpu-1."""
CUT = (
    MigDevice(0, "MIG-11111111-2222-5333-8444-000000000001", start=0),
    MigDevice(0, "MIG-11111111-2222-5333-8444-000000000002", start=4),
)

Play: TypeAlias = Callable[[ClaimsNamespace], State]


@dataclass(frozen=True)
class Case:
    """One state.

    Attributes:
        says: How it came about, for the README.
        play: Brings it about in a namespace, and looks.
        published: ResourceSlices of the node at the beginning.
        admin_access: Whether claims of the namespace may ask for it.
    """

    says: str
    play: Play
    published: tuple[Manifest, ...] = tuple(nvidia_slices(BRIDGED))
    admin_access: bool = False


def _bound(place: ClaimsNamespace, pod: Manifest, *objects: Manifest) -> State:
    """What there is while the pod is being bound."""
    place.apply(*objects)
    place.creates(pod)
    name = pod["metadata"]["name"]
    state = place.cluster.observer.binding(place.name, name)
    place.bound(name)
    return state


def _now(place: ClaimsNamespace, name: str = "train") -> State:
    return place.cluster.observer.look(place.name, name)


def _template_one(place: ClaimsNamespace) -> State:
    return _bound(place, claim_pod("train", [of_template("gpu", "one")]), template("one"))


def _direct_shared_by_pods(place: ClaimsNamespace) -> State:
    shared = [of_claim("gpus", "pair")]
    _bound(place, claim_pod("prefill", shared), claim("pair", exactly(count=2)))
    return _bound(place, claim_pod("decode", shared))


def _two_containers_one_claim(place: ClaimsNamespace) -> State:
    both = [container("prefill", ["gpus"]), container("decode", ["gpus"]), container("log")]
    pod = claim_pod("train", [of_template("gpus", "two")], *both)
    return _bound(place, pod, template("two", exactly(count=2)))


def _two_requests_one_claim(place: ClaimsNamespace) -> State:
    each = [container("prefill", [("gpus", "prefill")]), container("decode", [("gpus", "decode")])]
    wish = template("apart", exactly("prefill", 2), exactly("decode", 1))
    return _bound(place, claim_pod("train", [of_template("gpus", "apart")], *each), wish)


def _first_available(place: ClaimsNamespace) -> State:
    linked = "device.attributes['resource.kubernetes.io'].pciBusID in ['0000:ca:00.0', '0000:e3:00.0']"
    wish = first_available([("eight", 8, ""), ("bridged", 2, linked), ("any", 2, "")])
    pod = claim_pod("train", [of_template("gpus", "best")], container(claims=[("gpus", "gpus")]))
    return _bound(place, pod, template("best", wish))


def _extended_resource(place: ClaimsNamespace) -> State:
    return _bound(place, claim_pod("train", (), container(gpus=2), container("log")))


def _extended_resource_init(place: ClaimsNamespace) -> State:
    init = [container("check", gpus=2), container("proxy", gpus=1, restartPolicy="Always")]
    return _bound(place, claim_pod("train", (), container(gpus=2), container("eval", gpus=1), initContainers=init))


def _admin_access(place: ClaimsNamespace) -> State:
    _bound(place, claim_pod("train", [of_template("gpus", "four")]), template("four", exactly(count=4)))
    every = exactly("all", adminAccess=True, allocationMode="All")
    del every["exactly"]["count"]
    return _bound(place, claim_pod("monitor", [of_template("gpus", "every")]), template("every", every))


def _mig(place: ClaimsNamespace) -> State:
    wish = template("slices", exactly(count=2, device_class=MIG_CLASS))
    return _bound(place, claim_pod("train", [of_template("gpus", "slices")]), wish)


def _hami_shared(place: ClaimsNamespace) -> State:
    wish = template("part", exactly(device_class=HAMI_CLASS, capacity=SHARE))
    return _bound(place, claim_pod("train", [of_template("gpu", "part")]), wish)


def _hami_whole(place: ClaimsNamespace) -> State:
    wish = template("whole", exactly(count=2, device_class=HAMI_CLASS))
    return _bound(place, claim_pod("train", [of_template("gpus", "whole")]), wish)


def _several_results_same_card(place: ClaimsNamespace) -> State:
    parts = [exactly(name, device_class=HAMI_CLASS, capacity=SHARE) for name in ("prefill", "decode")]
    return _bound(place, claim_pod("train", [of_template("gpus", "parts")]), template("parts", *parts))


def _mps(place: ClaimsNamespace) -> State:
    # With one request, 1.37 leaves out for which requests the parameters are: empty means all of them.
    config = _shared_by({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}}) | {
        "requests": ["half"]
    }
    wish = claim("half", exactly("half"), exactly("whole"), config=[config])
    each = [container("eval", [("gpus", "half")]), container("train", [("gpus", "whole")])]
    return _bound(place, claim_pod("train", [of_claim("gpus", "half")], *each), wish)


def _time_slicing(place: ClaimsNamespace) -> State:
    config = _shared_by({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}})
    return _bound(place, claim_pod("train", [of_claim("gpu", "slow")]), claim("slow", config=[config]))


def _shared_by(sharing: Manifest) -> Manifest:
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing}
    return {"opaque": {"driver": NVIDIA, "parameters": parameters}}


def _gpu_and_nic(place: ClaimsNamespace) -> State:
    place.cluster.apply(
        {
            "apiVersion": VERSION,
            "kind": "DeviceClass",
            "metadata": {"name": NIC},
            "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{NIC}'"}}]},
        }
    )
    wish = template("both", exactly("gpu"), exactly("nic", device_class=NIC))
    return _bound(place, claim_pod("train", [of_template("devices", "both")]), wish)


def _unallocated(place: ClaimsNamespace) -> State:
    place.apply(template("one"))
    place.creates(claim_pod("train", [of_template("gpu", "one")], nodeName=NODE))
    until(lambda: "resourceClaimStatuses" in place.pod("train")["status"], "a claim of the template")
    return _now(place)


def _no_claim_yet(place: ClaimsNamespace) -> State:
    place.creates(claim_pod("train", [of_template("gpu", "later")]))
    return _now(place)


def _deallocated(place: ClaimsNamespace) -> State:
    _bound(place, claim_pod("before", [of_claim("gpu", "kept")]), claim("kept"))
    place.removes("before")
    until(lambda: not results(place.claim("kept")), "a claim without an allocation")
    place.creates(claim_pod("train", [of_claim("gpu", "kept")], schedulingGates=[{"name": "example.com/wait"}]))
    return _now(place)


def _reserved_for_another(place: ClaimsNamespace) -> State:
    mine = [of_claim("gpu", "taken")]
    _bound(place, claim_pod("other", mine), claim("taken"))
    place.creates(claim_pod("train", mine, schedulingGates=[{"name": "example.com/wait"}]))
    return _now(place)


def _missing_slices(place: ClaimsNamespace) -> State:
    state = _bound(place, claim_pod("train", [of_template("gpu", "one")]), template("one"))
    place.cluster.withdraw(*nvidia_slices(BRIDGED))
    return replace(state, slices=_now(place).slices)


def _old_generation(place: ClaimsNamespace) -> State:
    return _republished(place, nvidia_slices(_exchanged(), generation=2, parts=2))


def _incomplete_generation(place: ClaimsNamespace) -> State:
    return _republished(place, nvidia_slices(_exchanged(), generation=2, parts=2, published=1))


def _device_gone(place: ClaimsNamespace) -> State:
    place.apply(template("four", exactly(count=4)))
    state = _bound(place, claim_pod("train", [of_template("gpus", "four")]))
    place.cluster.withdraw(*nvidia_slices(BRIDGED))
    place.cluster.apply(*nvidia_slices(replace(BRIDGED, gpus=BRIDGED.gpus[1:]), generation=2))
    return replace(state, slices=_now(place).slices)


def _republished(place: ClaimsNamespace, newer: list[Manifest]) -> State:
    """The driver has started again while the pod was being bound; its old slice is still there."""
    state = _bound(place, claim_pod("train", [of_template("gpus", "two")]), template("two", exactly(count=2)))
    place.cluster.apply(*newer)
    return replace(state, slices=_now(place).slices)


def _exchanged() -> Any:
    """The same node after its cards 0 and 2 exchanged their device numbers."""
    minors = {0: MINORS[2], 2: MINORS[0]}
    gpus = tuple(replace(gpu, minor=minors.get(gpu.index, gpu.minor)) for gpu in BRIDGED.gpus)
    return replace(BRIDGED, gpus=gpus)


_HAMI = tuple(hami_slices(BRIDGED))
_NICS = slices(NIC, NODE, [{"name": "nic-0"}])
CASES: dict[str, Case] = {
    "template-one": Case("A claim of a template, one card.", _template_one),
    "direct-shared-by-pods": Case(
        "Two pods name one claim of two cards; at the Binding of the second.", _direct_shared_by_pods
    ),
    "two-containers-one-claim": Case("Two containers share a claim, a third has none.", _two_containers_one_claim),
    "two-requests-one-claim": Case("Each container refers to one request of the claim.", _two_requests_one_claim),
    "first-available": Case("Three alternatives, of which the first cannot be had.", _first_available),
    "extended-resource": Case("Limits of nvidia.com/gpu that a DeviceClass serves.", _extended_resource),
    "extended-resource-init": Case(
        "The same with an init container, which gets cards of later containers, and a sidecar, which has its own.",
        _extended_resource_init,
    ),
    "admin-access": Case(
        "The administrator's access to all cards, which another pod holds.", _admin_access, admin_access=True
    ),
    "mig": Case("Two MIG devices of one card.", _mig, tuple(nvidia_slices(BRIDGED, CUT))),
    "hami-shared": Case("A part of a card of HAMi's driver.", _hami_shared, _HAMI),
    "hami-whole": Case("Two cards of HAMi's driver without an amount, hence whole.", _hami_whole, _HAMI),
    "several-results-same-card": Case(
        "Two requests of one claim got parts of one card.", _several_results_same_card, _HAMI
    ),
    "mps": Case("A claim of two cards, one of them with NVIDIA's parameters for MPS.", _mps),
    "time-slicing": Case("A claim with NVIDIA's parameters for time slices, for all its requests.", _time_slicing),
    "gpu-and-nic": Case(
        "A claim of a card and of a network interface of another driver.",
        _gpu_and_nic,
        (*nvidia_slices(BRIDGED), *_NICS),
    ),
    "two-slices": Case("The pool is spread over two slices.", _template_one, tuple(nvidia_slices(BRIDGED, parts=2))),
    "unallocated": Case(
        "The pod was created with a nodeName: its claim exists, and nobody allocates it.", _unallocated
    ),
    "no-claim-yet": Case("The template does not exist, so there is no claim.", _no_claim_yet),
    "deallocated": Case("The claim had an allocation until its last pod was deleted.", _deallocated),
    "reserved-for-another": Case("The claim is allocated for another pod; this one is gated.", _reserved_for_another),
    "missing-slices": Case("The driver was removed during the Binding: its slices are gone.", _missing_slices),
    "old-generation": Case(
        "During the Binding the driver published its pool anew, in two slices: devices have other numbers. "
        "The slice of the old generation is still there.",
        _old_generation,
    ),
    "incomplete-generation": Case("The same, and of the two new slices one is there.", _incomplete_generation),
    "device-gone": Case(
        "During the Binding the driver published its pool anew, without one of the cards.", _device_gone
    ),
}


@contextmanager
def played(cluster: ClaimsCluster, case: Case) -> Iterator[State]:
    """The state, until the end of the block."""
    labels = OBSERVED | (ADMIN_ACCESS if case.admin_access else {})
    with cluster.node(NODE, case.published), cluster.namespace(labels) as place:
        yield case.play(place)


def documents(state: State) -> dict[str, str]:
    """The files of a golden case by their names, without what differs from run to run."""
    own = [each for each in state.slices if each["spec"].get("nodeName") == NODE]
    parts = {
        "pod.json": _pod(state.pod),
        "claims.json": [*map(_claim, state.claims)],
        "slices.json": [*map(_slice, own)],
    }
    same = _Renamed(state)
    return {name: same(_pretty(part)) for name, part in parts.items()}


class _Renamed:
    """Generated names, UIDs, the namespace and times by others that are the same in each run."""

    def __init__(self, state: State) -> None:
        self._names = {state.pod["metadata"]["namespace"]: TEAM}
        for one in state.claims:
            if generated := one["metadata"].get("generateName"):
                number = sum(name.startswith(generated) for name in self._names.values()) + 1
                self._names[one["metadata"]["name"]] = f"{generated}{number:05}"
        text = json.dumps([state.pod["metadata"]["uid"], state.claims])
        random = re.findall(UUID, text)
        for number, uid in enumerate(dict.fromkeys([state.pod["metadata"]["uid"], *random]), 1):
            self._names[uid] = f"00000000-0000-4000-8000-{number:012}"

    def __call__(self, text: str) -> str:
        for name, other in self._names.items():
            text = text.replace(name, other)
        return re.sub(r'(?<="allocationTimestamp": ")[^"]+', TIME, text)


def _pod(pod: Manifest) -> Manifest:
    """What of the pod is about its identity, its containers, their resources, its node and its claims."""
    spec, status = pod["spec"], pod["status"]
    kept = ("nodeName", "nodeSelector", "resourceClaims", "schedulerName", "schedulingGates")
    containers = {
        kind: [_only(each, "name", "image", "resources", "restartPolicy") for each in spec[kind]]
        for kind in ("initContainers", "containers")
        if kind in spec
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _only(pod["metadata"], "name", "namespace", "uid", "labels", "annotations"),
        "spec": _only(spec, *kept) | containers,
        "status": _only(status, "phase", "resourceClaimStatuses", "extendedResourceClaimStatus"),
    }


def _claim(body: Manifest) -> Manifest:
    kept = ("name", "generateName", "namespace", "uid", "annotations", "finalizers", "ownerReferences")
    return _resource("ResourceClaim", body, *kept)


def _slice(body: Manifest) -> Manifest:
    return _resource("ResourceSlice", body, "name")


def _resource(kind: str, body: Manifest, *kept: str) -> Manifest:
    return {"apiVersion": VERSION, "kind": kind} | body | {"metadata": _only(body["metadata"], *kept)}


def _only(fields: Manifest, *names: str) -> Manifest:
    return {name: fields[name] for name in names if name in fields}


def _pretty(value: Any, indent: str = "", width: int = 110) -> str:
    """JSON with each value on one line if it fits there."""
    short = json.dumps(value)
    if len(indent) + len(short) <= width or not isinstance(value, dict | list) or not value:
        return short
    deeper = f"{indent}  "
    if isinstance(value, dict):
        inner = [f"{deeper}{json.dumps(key)}: {_pretty(each, deeper, width)}" for key, each in value.items()]
        return "{\n" + ",\n".join(inner) + f"\n{indent}}}"
    return "[\n" + ",\n".join(f"{deeper}{_pretty(each, deeper, width)}" for each in value) + f"\n{indent}]"


def write_case(directory: Path, name: str, state: State) -> None:
    """Writes the files of this case."""
    (directory / name).mkdir(parents=True, exist_ok=True)
    for file, text in documents(state).items():
        (directory / name / file).write_text(f"{text}\n", encoding="utf-8")

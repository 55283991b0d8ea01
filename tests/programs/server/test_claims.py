"""Reviews of pods with resource claims: what is read for them, what is not, and what cannot be."""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import msgspec
import pytest

from tests.decisions.claims.kept import KeptClaims
from tests.fuzz import effort
from tests.pods import Manifest, container, pod
from tests.programs.server.asgi import application, binding_review, post, review
from tests.programs.server.test_bindings import GPU, PATH, POD_UID, KnownCluster, KnownPods, to_node
from webhook.cluster.files.state import DirectoryState
from webhook.cluster.state import Claims
from webhook.decisions.claims.pod import MOST_CLAIMS, MOST_REFERENCES, claim_uses
from webhook.decisions.claims.slices import Pools, slice_part
from webhook.decisions.configuration import ClaimSettings
from webhook.objects.claims import decode_slice
from webhook.objects.pod import Pod
from webhook.programs.server.claim_specs import spec_sources

ENABLED = {"claims": {"enabled": True}}
MARKED = [
    {"name": "GPU_TOPOLOGY_PROFILE", "value": "exclusive"},
    {"name": "NCCL_P2P_LEVEL", "value": "auto"},
    {"name": "NCCL_NVLS_ENABLE", "value": "2"},
]
SPEC = {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]}}
SLICE = {
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "a100-pcie",
        "pool": {"name": "a100-pcie", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}, "uuid": {"string": uuid}}}
            for number, uuid in enumerate(GPU)
        ],
    },
}


def published(*slices: Manifest) -> Pools:
    settings = ClaimSettings()
    parts = [slice_part(decode_slice(json.dumps(one).encode(), "slice"), settings) for one in slices]
    return Pools(part for part in parts if part)


def allocated(*devices: str, pod_uid: str = POD_UID) -> bytes:
    """A ResourceClaim with these devices."""
    results = [
        {"request": "gpus", "driver": "gpu.nvidia.com", "pool": "a100-pcie", "device": device} for device in devices
    ]
    reserved = [{"resource": "pods", "name": "train", "uid": pod_uid}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    return json.dumps({"metadata": {"name": "train-gpus"}, "spec": SPEC, "status": status}).encode()


TEMPLATE = json.dumps({"metadata": {"name": "two"}, "spec": {"spec": SPEC}}).encode()


def claiming(*entries: Manifest, env: Any = (), **metadata: Any) -> Manifest:
    """A pod with one container that uses all of these entries."""
    uses = [{"name": entry["name"]} for entry in entries]
    made = pod(container("main") | {"resources": {"claims": uses}, "env": list(env)}, resourceClaims=list(entries))
    made["metadata"] |= {"namespace": "ml-workloads", "uid": POD_UID} | metadata
    return made


def of_template(name: str = "two") -> Manifest:
    return {"name": "gpus", "resourceClaimTemplateName": name}


def named(name: str = "train-gpus", entry: str = "gpus") -> Manifest:
    return {"name": entry, "resourceClaimName": name}


def pod_of(made: Manifest) -> Pod:
    return msgspec.json.decode(json.dumps(made), type=Pod)


def admitted(made: Manifest, known: Claims, **settings: Any) -> Manifest:
    """The line in the log about the pod's creation."""
    with TemporaryFile() as log:
        app = application(KnownCluster(), log, known_claims=known, **settings)
        assert post(app, review(made)).status == 200
        log.seek(0)
        (line,) = [json.loads(text) for text in log.read().splitlines()]
        return dict(line)


def bound(made: Manifest | None, known: Claims, **settings: Any) -> tuple[Manifest, Any]:
    """The line in the log about the pod's Binding, and what was counted."""
    with TemporaryFile() as log:
        app = application(KnownCluster(), log, KnownPods(made), known_claims=known, **settings)
        assert post(app, binding_review(to_node()), path=PATH).status == 200
        log.seek(0)
        (line,) = [json.loads(text) for text in log.read().splitlines()]
        return dict(line), app.counts


def test_the_template_of_a_pod_that_is_created_is_read() -> None:
    claims = KeptClaims({("template", "two"): TEMPLATE})
    admitted(claiming(of_template()), claims, **ENABLED)
    assert claims.asked == [("template", "ml-workloads", "two")]
    assert claims.deadlines[0] is not None


def test_a_claim_that_a_pod_names_is_read_once_for_all_its_entries() -> None:
    claims = KeptClaims()
    admitted(claiming(named("shared", "a"), named("shared", "b"), of_template("shared")), claims, **ENABLED)
    assert sorted(claims.asked) == [("claim", "ml-workloads", "shared"), ("template", "ml-workloads", "shared")]


@pytest.mark.parametrize(
    ("made", "settings"),
    [
        (claiming(of_template()), {}),
        (pod(container(gpus=2)), ENABLED),
        (claiming(of_template(), labels={"gpu.topology/injection": "disabled"}), ENABLED),
        (claiming(of_template(), annotations={"gpu.topology/inject": "false"}), ENABLED),
        (pod(container("main"), resourceClaims=[of_template()]), ENABLED),
    ],
    ids=["not enabled", "no claims", "opted out by label", "opted out by annotation", "no container uses it"],
)
def test_nothing_is_read_for_other_pods(made: Manifest, settings: Any) -> None:
    claims = KeptClaims()
    admitted(made, claims, **settings)
    assert claims.asked == []


def test_a_pod_is_decided_about_although_its_claims_cannot_be_read() -> None:
    claims = KeptClaims(problem="get resourceclaimtemplate: no answer")
    line = admitted(claiming(of_template()), claims, **ENABLED)
    assert line["outcome"] in ("skip", "patch")


def test_of_a_pod_with_very_many_claims_32_are_read() -> None:
    claims = KeptClaims()
    entries = [named(f"claim-{number}", f"e{number}") for number in range(MOST_CLAIMS + 1)]
    admitted(claiming(*entries), claims, **ENABLED)
    assert len(claims.asked) == MOST_CLAIMS


@pytest.mark.parametrize("entry", [of_template, named])
def test_entries_of_one_object_count_as_claims_too(entry: Callable[[], Manifest]) -> None:
    """What a claim asks for is added up for each entry: 26,000 entries of one template of 32 requests took 2.6 s."""
    made = pod_of(claiming(*(entry() | {"name": f"e{number}"} for number in range(26_000))))
    assert len(spec_sources(made)) == MOST_CLAIMS


def test_of_all_containers_so_many_references_to_claims_are_looked_at() -> None:
    entries = [named(entry=f"e{number}") for number in range(MOST_REFERENCES)]
    made = claiming(*entries)
    uses = made["spec"]["containers"][0]["resources"]["claims"]
    later = [container(name) | {"resources": {"claims": uses[:1]}} for name in ("second", "third")]
    made["spec"]["containers"] += later
    assert claim_uses(pod_of(made)).keys() == {"main"}
    del uses[1:]
    assert claim_uses(pod_of(made)).keys() == {"main", "second", "third"}


def test_the_work_for_references_ends_at_the_limit() -> None:
    most, twice = (
        pod_of(claiming(*(of_template() | {"name": f"e{number}"} for number in range(count))))
        for count in (MOST_REFERENCES, 2 * MOST_REFERENCES)
    )
    assert effort.count_calls(lambda: claim_uses(twice)) == effort.count_calls(lambda: claim_uses(most))


def test_claims_of_another_type_than_in_a_pod_are_a_bad_request() -> None:
    made = claiming(named())
    made["spec"]["resourceClaims"] = [{"name": 7}]
    with TemporaryFile() as log:
        answer = post(
            application(KnownCluster(), log, known_claims=KeptClaims(), claims={"enabled": True}), review(made)
        )
    assert answer.status == 400


def test_a_binding_is_decided_by_what_the_claim_was_given() -> None:
    claims = KeptClaims({("claim", "train-gpus"): allocated("gpu-0", "gpu-1")}, published(SLICE))
    line, counts = bound(claiming(named(), env=MARKED), claims, **ENABLED)
    assert (line["outcome"], line["reason"], line["link"]) == ("patch", "resolved", "NVLink")
    assert claims.asked == [("claim", "ml-workloads", "train-gpus")]
    assert sum(counts.claim_seconds.buckets) == 1


def test_other_devices_of_the_same_claim_have_another_link() -> None:
    claims = KeptClaims({("claim", "train-gpus"): allocated("gpu-1", "gpu-2")}, published(SLICE))
    line, _ = bound(claiming(named(), env=MARKED), claims, **ENABLED)
    assert (line["outcome"], line["link"]) == ("patch", "SYS")


def test_the_claim_of_a_template_is_found_by_the_status_of_the_pod() -> None:
    made = claiming(of_template(), env=MARKED)
    made["status"] = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": "train-gpus-x7k2p"}]}
    claims = KeptClaims({("claim", "train-gpus-x7k2p"): allocated("gpu-0", "gpu-1")}, published(SLICE))
    line, _ = bound(made, claims, **ENABLED)
    assert line["link"] == "NVLink"


@pytest.mark.parametrize(
    ("made", "settings"),
    [
        (claiming(named(), env=MARKED), {}),
        (claiming(named()), ENABLED),
        (pod(container(gpus=2)), ENABLED),
        (claiming(named(), env=MARKED, labels={"gpu.topology/injection": "disabled"}), ENABLED),
        (claiming(named(), env=MARKED, uid="another"), ENABLED),
        (None, ENABLED),
    ],
    ids=["not enabled", "not injected", "no claims", "opted out", "another pod of that name", "no pod"],
)
def test_nothing_is_read_for_bindings_of_other_pods(made: Manifest | None, settings: Any) -> None:
    claims = KeptClaims()
    line, counts = bound(made, claims, **settings)
    assert claims.asked == []
    assert line["outcome"] == "skip"
    assert sum(counts.claim_seconds.buckets) == 0


def test_an_observed_pod_is_read_too() -> None:
    claims = KeptClaims({("claim", "train-gpus"): allocated("gpu-0", "gpu-1")}, published(SLICE))
    bound(claiming(named(), annotations={"gpu.topology/profile": "observe"}), claims, **ENABLED)
    assert claims.asked == [("claim", "ml-workloads", "train-gpus")]


def test_a_binding_is_refused_while_a_claim_cannot_be_read() -> None:
    claims = KeptClaims(problem="get resourceclaim ml-workloads/train-gpus: no answer")
    line, counts = bound(claiming(named(), env=MARKED), claims, **ENABLED)
    assert (line["outcome"], line["reason"]) == ("refuse", "pod-unreadable")
    assert line["error"] == "get resourceclaim ml-workloads/train-gpus: no answer"
    assert counts.failed_claim_reads == {"claim": 1}


def test_what_is_no_claim_is_not_believed() -> None:
    claims = KeptClaims({("claim", "train-gpus"): b'{"spec":7}'})
    line, _ = bound(claiming(named(), env=MARKED), claims, **ENABLED)
    assert (line["outcome"], line["reason"]) == ("refuse", "pod-unreadable")


def test_a_claim_that_does_not_exist_is_told_of() -> None:
    line, _ = bound(claiming(named(), env=MARKED), KeptClaims(), **ENABLED)
    assert line["outcome"] in ("skip", "degraded")


def test_a_device_that_is_published_nowhere_is_told_of() -> None:
    claims = KeptClaims({("claim", "train-gpus"): allocated("gpu-0")})
    line, _ = bound(claiming(named(), env=MARKED), claims, **ENABLED)
    assert line["outcome"] == "degraded"
    assert line["error"].startswith("GT269: pod ml-workloads/train: driver gpu.nvidia.com publishes no pool a100-pcie")


def test_a_binding_of_very_many_entries_of_one_claim_reads_none() -> None:
    entries = [named(entry=f"e{number}") for number in range(MOST_CLAIMS + 1)]
    claims = KeptClaims({("claim", "train-gpus"): allocated("gpu-0", "gpu-1")}, published(SLICE))
    line, _ = bound(claiming(*entries, env=MARKED), claims, **ENABLED)
    assert (line["outcome"], claims.asked) == ("refuse", [])
    assert line["error"].startswith("GT275")
    line, _ = bound(claiming(*entries[1:], env=MARKED), claims, **ENABLED)
    assert (line["outcome"], len(claims.asked)) == ("patch", 1)


@pytest.mark.parametrize(("count", "outcome", "read"), [(MOST_CLAIMS, "degraded", MOST_CLAIMS), (33, "refuse", 0)])
def test_more_claims_than_are_read_are_refused(count: int, outcome: str, read: int) -> None:
    entries = [named(f"claim-{number}", f"e{number}") for number in range(count)]
    claims = KeptClaims({("claim", f"claim-{number}"): allocated(f"gpu-{number}") for number in range(count)})
    line, _ = bound(claiming(*entries, env=MARKED), claims, **ENABLED)
    assert (line["outcome"], len(claims.asked)) == (outcome, read)
    assert outcome != "refuse" or line["error"].startswith("GT275: pod ml-workloads/train: its containers use 33")


def test_entries_that_no_container_uses_are_not_read() -> None:
    made = claiming(named(), env=MARKED)
    made["spec"]["resourceClaims"].append(named("nic", "nic"))
    claims = KeptClaims({("claim", "train-gpus"): allocated("gpu-0", "gpu-1")}, published(SLICE))
    bound(made, claims, **ENABLED)
    assert claims.asked == [("claim", "ml-workloads", "train-gpus")]


def in_directory(root: Path, *objects: tuple[str, Any]) -> DirectoryState:
    """A state directory with these objects, each with its kind; YAML reads JSON."""
    (root / "claims").mkdir()
    for number, (kind, one) in enumerate(objects):
        head = {"apiVersion": "resource.k8s.io/v1", "kind": kind}
        metadata = {"namespace": "ml-workloads"} | one["metadata"]
        (root / "claims" / f"{number}.yaml").write_text(json.dumps(head | one | {"metadata": metadata}))
    return DirectoryState(root, ClaimSettings(enabled=True))


def test_with_a_state_directory_a_binding_is_decided_by_its_files(tmp_path: Path) -> None:
    claim = json.loads(allocated("gpu-0", "gpu-1"))
    claims = in_directory(tmp_path, ("ResourceClaim", claim), ("ResourceSlice", SLICE))
    line, _ = bound(claiming(named(), env=MARKED), claims, **ENABLED)
    assert (line["outcome"], line["link"]) == ("patch", "NVLink")


def test_with_a_state_directory_a_pod_is_created_by_its_files(tmp_path: Path) -> None:
    claims = in_directory(tmp_path, ("ResourceClaimTemplate", json.loads(TEMPLATE)))
    wished = {"gpu.topology/inject": "true"}
    known = admitted(claiming(of_template(), annotations=wished), claims, **ENABLED)
    unknown = admitted(claiming(of_template("other"), annotations=wished), claims, **ENABLED)
    assert known["reason"] != "no-gpu-request"
    assert unknown["outcome"] in ("patch", "skip", "degraded", "refuse")

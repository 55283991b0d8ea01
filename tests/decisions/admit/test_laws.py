"""What holds for every pod, whatever a user wrote."""

import base64
import copy
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from tests.decisions.admit.generated import (
    CLAIM_SPECS,
    GPU_RESOURCES,
    claim_pods,
    claim_policies,
    clusters,
    namespaces,
    nodes,
    pods,
    policies,
)
from tests.judge import HAMI_2_9, NO_SPECS, TEAM_A, judge, policy
from tests.laws import check_laws
from tests.pods import SHARED_MEMORY, Manifest
from tests.pods import pod as make_pod
from webhook.decisions.admit.admission import admit
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import is_output
from webhook.decisions.request.claims import claim_view
from webhook.decisions.request.observe_profile import profile_if_observed
from webhook.decisions.request.resources import read_requests
from webhook.objects.claims import ClaimSpec
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Namespace, Pod
from webhook.objects.review import encode_reply
from webhook.words.outcome import Kind, Outcome, Reason, Refused

OUR_ANNOTATIONS = re.compile(
    r"gpu\.topology/(injected|visible-uuids|nccl-p2p-level|nccl-nvls|node-topology|cuda-visible-devices\.\d+"
    r"|nccl-env\.[A-Z_]+)"
)
OUTPUTS_OF_BIND = re.compile(r"gpu\.topology/(link|bandwidth|ring-order|numa|satisfied|placed)")
OF_VISIBLE_GPUS = re.compile(r"gpu\.topology/(visible-uuids|cuda-visible-devices\.\d+)")
FOREIGN_ANNOTATIONS: dict[str, tuple[str, ...]] = {
    "hami.io/gpu-scheduler-policy": ("topology-aware", "spread"),
    "nvidia.com/numa-bind": ("true",),
}
GATE, PLACEMENT = {"name": "gpu.topology/place"}, "gpu.topology/placement"
OUR_MOUNT_PATHS = (SHARED_MEMORY, "/run/gpu-topology")
SPEC_FIELDS: dict[str, list[Any]] = {
    "hostIPC": [True],
    "hostPID": [True],
    "hostNetwork": [True],
    "shareProcessNamespace": [True],
    "dnsPolicy": ["ClusterFirstWithHostNet"],
    "runtimeClassName": ["nvidia"],
}
AFFINITY_LISTS = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


@dataclass(frozen=True)
class Admission:
    """A pod as it was created, what was decided about it, and the pod afterwards."""

    pod: Manifest
    namespace: Namespace
    cluster: ClusterFacts
    rules: AdmitPolicy
    outcome: Outcome
    after: Manifest
    specs: Mapping[str, ClaimSpec | None]

    def of(self, pod: Manifest) -> tuple[Outcome, Manifest]:
        """The same for another pod."""
        return judge(pod, self.namespace, self.cluster, self.rules, nodes=nodes, claim_specs=self.specs)


def admission(
    pod: Manifest,
    namespace: Namespace,
    cluster: ClusterFacts,
    rules: AdmitPolicy,
    specs: Mapping[str, ClaimSpec | None] = NO_SPECS,
) -> Admission:
    """Admit the pod; checks the laws of ``judge``."""
    outcome, after = judge(pod, namespace, cluster, rules, nodes=nodes, claim_specs=specs)
    return Admission(pod, namespace, cluster, rules, outcome, after, specs)


def others(mapping: Manifest, *keys: str) -> Manifest:
    return {key: value for key, value in mapping.items() if key not in keys}


def check_nothing_lost(before: Manifest, after: Manifest) -> None:
    """Walks the pod as the user wrote it beside the result; fails on any difference that is not documented."""
    assert others(before, "metadata", "spec") == others(after, "metadata", "spec")
    check_metadata(before["metadata"], after["metadata"])
    check_spec(before["spec"], after["spec"], wanted_variables(before))


def wanted_variables(before: Manifest) -> dict[str, str]:
    prefix = "gpu.topology/env."
    annotations = before["metadata"].get("annotations") or {}
    return {key.removeprefix(prefix): text for key, text in annotations.items() if key.startswith(prefix)}


def check_metadata(before: Manifest, after: Manifest) -> None:
    assert others(before, "annotations", "labels") == others(after, "annotations", "labels")
    old, new = before.get("annotations") or {}, after.get("annotations") or {}
    for key, value in old.items():
        assert new.get(key) == value or OUR_ANNOTATIONS.fullmatch(key) or OUTPUTS_OF_BIND.fullmatch(key), key
    for key in new.keys() - old.keys():
        ours = OUR_ANNOTATIONS.fullmatch(key) or OUTPUTS_OF_BIND.fullmatch(key)
        assert ours or new[key] in FOREIGN_ANNOTATIONS[str(key)]
    old, new = others(before.get("labels") or {}, PLACEMENT), others(after.get("labels") or {}, PLACEMENT)
    assert others(new, *(new.keys() - old.keys())) == old
    assert new.keys() - old.keys() <= {"gpu.topology/group"}


def check_spec(before: Manifest, after: Manifest, wanted: dict[str, str]) -> None:
    ours = ("containers", "initContainers", "volumes", "affinity", "schedulingGates", *SPEC_FIELDS)
    assert others(before, *ours) == others(after, *ours)
    for field, values in SPEC_FIELDS.items():
        assert after.get(field) == before.get(field) or after[field] in values
    check_dns_policy(before, after)
    gates = before.get("schedulingGates") or []
    assert (after.get("schedulingGates") or []) in (gates, [*gates, GATE])
    if before.get("runtimeClassName"):
        assert after["runtimeClassName"] == before["runtimeClassName"]
    old_volumes, volumes = before.get("volumes") or [], after.get("volumes") or []
    assert volumes[: len(old_volumes)] == old_volumes
    for volume in volumes[len(old_volumes) :]:
        assert volume["name"].startswith("gpu-topology")
        assert volume["name"] not in {old["name"] for old in old_volumes}
        assert volume.keys() == {"name", "emptyDir"}
    check_affinity(before.get("affinity") or {}, after.get("affinity") or {})
    check_containers(before["containers"], after["containers"], wanted)
    old_inits, inits = before.get("initContainers") or [], after.get("initContainers") or []
    if len(inits) == len(old_inits) + 1:
        ours_first = inits[0]
        assert ours_first["command"] == ["gpu-topology", "remap"]
        assert ours_first["name"] not in {entry["name"] for entry in [*old_inits, *before["containers"]]}
        inits = inits[1:]
    check_containers(old_inits, inits, wanted)


def check_dns_policy(before: Manifest, after: Manifest) -> None:
    if after.get("dnsPolicy") != before.get("dnsPolicy"):
        assert before.get("dnsPolicy") in (None, "ClusterFirst")
        assert after["hostNetwork"] is True


def check_affinity(before: Manifest, after: Manifest) -> None:
    assert others(before, "podAffinity") == others(after, "podAffinity")
    old, new = before.get("podAffinity") or {}, after.get("podAffinity") or {}
    assert others(old, *AFFINITY_LISTS) == others(new, *AFFINITY_LISTS)
    for field in AFFINITY_LISTS:
        old_terms, terms = old.get(field) or [], new.get(field) or []
        assert terms[: len(old_terms)] == old_terms
        assert len(terms) <= len(old_terms) + 1


def check_containers(before: list[Manifest], after: list[Manifest], wanted: dict[str, str]) -> None:
    assert [entry["name"] for entry in before] == [entry["name"] for entry in after]
    for old, new in zip(before, after, strict=True):
        assert others(old, "env", "volumeMounts", "resources") == others(new, "env", "volumeMounts", "resources")
        check_env(old.get("env") or [], new.get("env") or [], wanted)
        old_mounts, mounts = old.get("volumeMounts") or [], new.get("volumeMounts") or []
        assert mounts[: len(old_mounts)] == old_mounts
        paths = [mount["mountPath"].rstrip("/") for mount in old_mounts]
        for mount in mounts[len(old_mounts) :]:
            assert mount["mountPath"] in OUR_MOUNT_PATHS
            assert mount["mountPath"] not in paths
        check_resources(old.get("resources") or {}, new.get("resources") or {})


def check_env(before: list[Manifest], after: list[Manifest], wanted: dict[str, str]) -> None:
    for old, new in zip(before, after, strict=False):
        if new != old:
            assert new == {"name": old["name"], "value": wanted[old["name"]]}
    assert len(after) >= len(before)
    added = [entry["name"] for entry in after[len(before) :]]
    assert len(set(added)) == len(added)
    assert not set(added) & {entry["name"] for entry in before}


def check_resources(before: Manifest, after: Manifest) -> None:
    assert others(before, "limits", "requests") == others(after, "limits", "requests")
    sections = [(before.get(section) or {}, after.get(section) or {}) for section in ("limits", "requests")]
    asks = any(key in GPU_RESOURCES for old, _ in sections for key in old)
    for old, new in sections:
        if asks:
            assert others(old, *GPU_RESOURCES) == others(new, *GPU_RESOURCES)
        else:
            assert old == new


def variables(after: Manifest) -> list[tuple[Manifest, Manifest]]:
    spec = after["spec"]
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    return [(container, entry) for container in containers for entry in container.get("env") or []]


def added_variables(before: Manifest, after: Manifest) -> list[tuple[Manifest, Manifest]]:
    old = {id(entry) for _, entry in variables(before)}
    present = [entry for _, entry in variables(before)]
    return [(holder, entry) for holder, entry in variables(after) if id(entry) not in old and entry not in present]


def the_patch_applies_and_a_second_admission_adds_nothing(it: Admission) -> None:
    assert (it.after != it.pod) == bool(operations(it.outcome))


def no_field_of_the_user_is_lost_or_changed_beside_those_that_are_documented(it: Admission) -> None:
    check_nothing_lost(it.pod, it.after)


def a_pod_that_is_left_alone_or_refused_gets_no_patch_and_a_refused_one_a_message(it: Admission) -> None:
    if it.outcome.kind in (Kind.SKIP, Kind.REFUSE):
        assert operations(it.outcome) == []
        assert it.after == it.pod
    assert bool(it.outcome.message) == (it.outcome.kind is Kind.REFUSE)
    assert len(it.outcome.message) < 1000
    if it.outcome.kind is Kind.DEGRADED:
        assert it.outcome.warnings


@given(pods(gpus=False), namespaces(), clusters, policies)
def test_of_a_pod_without_a_gpu_request_nothing_changes_but_outputs_that_it_brought(
    pod: Manifest, namespace: Namespace, cluster: ClusterFacts, rules: AdmitPolicy
) -> None:
    outcome, after = judge(pod, namespace, cluster, rules, nodes=nodes)
    if outcome.kind is Kind.SKIP:
        assert after == pod
    elif outcome.kind is Kind.REFUSE:
        assert outcome.reason is Reason.UNKNOWN_OUTPUT
    else:
        pointers = {operation.path for operation in outcome.operations}
        annotations, label = pod["metadata"]["annotations"] or {}, f"/metadata/labels/{PLACEMENT.replace('/', '~1')}"
        outputs = {f"/metadata/annotations/{key.replace('/', '~1')}" for key in annotations}
        assert pointers <= {*outputs, "/metadata/labels", label}


def no_pod_that_is_created_keeps_an_output_that_somebody_else_wrote(it: Admission) -> None:
    brought = it.pod["metadata"].get("annotations") or {}
    forged = {key: f"forged{value}" for key, value in brought.items() if is_output(key)}
    pod = {**it.pod, "metadata": {**it.pod["metadata"], "annotations": brought | forged}} if forged else it.pod
    outcome, after = it.of(pod)
    if outcome.allowed and it.namespace.injection_enabled:
        left = after["metadata"].get("annotations") or {}
        assert not [key for key, value in forged.items() if left.get(key) == value]


def the_label_stands_on_pods_that_wait_and_on_no_others(it: Admission) -> None:
    if it.outcome.allowed and it.namespace.injection_enabled and it.namespace.known:
        is_gated = GATE in (it.after["spec"].get("schedulingGates") or [])
        labels = it.after["metadata"].get("labels") or {}
        assert labels.get(PLACEMENT) == ("waiting" if is_gated else None)


def no_pod_begins_to_wait_unless_a_planner_is_there_and_may_choose(it: Admission) -> None:
    if GATE in (it.after["spec"].get("schedulingGates") or []) and it.pod["spec"].get("schedulingGates") is None:
        assert it.cluster.has_planner
        assert it.rules.placement.mode == "on"
        assert (it.after["metadata"]["annotations"]).get("gpu.topology/place") != "off"


def each_annotation_that_a_new_variable_refers_to_has_a_value(it: Admission) -> None:
    annotations = it.after["metadata"].get("annotations") or {}
    for _, entry in added_variables(it.pod, it.after):
        if "valueFrom" not in entry:
            assert entry["value"] or not entry["name"].startswith("NCCL_")
            continue
        if "fileKeyRef" in entry["valueFrom"] or entry["name"] == "GPU_TOPOLOGY_ALLOCATION":
            continue  # for the remap program, to which an empty allocation is none
        path = entry["valueFrom"]["fieldRef"]["fieldPath"]
        if path.startswith("metadata.annotations['gpu.topology/"):
            assert annotations[path.removeprefix("metadata.annotations['").removesuffix("']")]


def a_file_that_a_new_variable_reads_is_one_that_the_remap_container_alone_can_write(it: Admission) -> None:
    references = [entry.get("valueFrom", {}).get("fileKeyRef") for _, entry in added_variables(it.pod, it.after)]
    for reference in filter(None, references):
        assert reference["path"] == "env"
        (volume,) = (volume for volume in it.after["spec"]["volumes"] if volume["name"] == reference["volumeName"])
        assert volume["emptyDir"].get("medium") is None
        containers = [*(it.after["spec"].get("initContainers") or []), *it.after["spec"]["containers"]]
        writers = [
            container["command"]
            for container in containers
            for mount in container.get("volumeMounts") or []
            if mount["name"] == volume["name"] and not mount.get("readOnly")
        ]
        assert writers == [["gpu-topology", "remap"]]


def without_permissions_nobody_is_shown_gpus_by_the_word_of_an_annotation(it: Admission) -> None:
    if it.outcome.allowed and it.namespace.injection_enabled:
        annotations = it.after["metadata"].get("annotations") or {}
        shown = {key: value for key, value in annotations.items() if OF_VISIBLE_GPUS.fullmatch(key)}
        assert set(shown.values()) <= {"none", "-1"}


def without_permissions_nothing_reaches_beyond_the_pod(it: Admission) -> None:
    for field in ("hostIPC", "hostPID", "hostNetwork"):
        assert it.after["spec"].get(field) == it.pod["spec"].get(field)
    for holder, entry in added_variables(it.pod, it.after):
        if entry["name"] == "NVIDIA_VISIBLE_DEVICES" and entry.get("value") == "all":
            assert holder["command"] == ["gpu-topology", "remap"]
            assert holder["args"] == ["--mode", "init"]


def no_container_becomes_privileged(it: Admission) -> None:
    for container in it.after["spec"].get("initContainers") or []:
        if container.get("command") == ["gpu-topology", "remap"]:
            assert container["securityContext"]["runAsNonRoot"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert "privileged" not in container["securityContext"]


def defaulted(after: Manifest) -> Manifest:
    """The pod as the API server and HAMi's webhook would hand it to us for a second look."""
    seen = copy.deepcopy(after)
    spec = seen["spec"]
    spec.setdefault("schedulerName", "hami-scheduler")
    for holder, entry in variables(seen):
        field = (entry.get("valueFrom") or {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")
        line = (entry.get("valueFrom") or {}).get("fileKeyRef")
        if line is not None:
            line.setdefault("optional", False)
        holder.setdefault("terminationMessagePath", "/dev/termination-log")
    for holder in [*(spec.get("initContainers") or []), *spec["containers"]]:
        holder["imagePullPolicy"] = holder.get("imagePullPolicy", "IfNotPresent")
        path = "/var/run/secrets/kubernetes.io/serviceaccount"
        token = {"name": "kube-api-access-x", "mountPath": path, "readOnly": True}
        holder["volumeMounts"] = [*(holder.get("volumeMounts") or []), token]
        if "resources" not in holder or not any(key in str(holder["resources"]) for key in GPU_RESOURCES):
            hidden = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}
            holder["env"] = [*(holder.get("env") or []), hidden]
    spec["volumes"] = [*(spec.get("volumes") or []), {"name": "kube-api-access-x", "projected": {"sources": []}}]
    return seen


def operations(outcome: Outcome) -> list[Manifest]:
    response = json.loads(encode_reply("uid", outcome))["response"]
    return list(json.loads(base64.b64decode(response.get("patch", "W10="))))


def remap_containers(after: Manifest) -> list[Manifest]:
    inits = after["spec"].get("initContainers") or []
    return [init for init in inits if init.get("command") == ["gpu-topology", "remap"]]


def after_defaulting_and_hami_only_the_remap_containers_list_of_gpus_is_put_last_again(it: Admission) -> None:
    if it.after == it.pod:
        return
    assert it.outcome.allowed
    again, _ = it.of(defaulted(it.after))
    assert again.allowed
    for operation in operations(again):
        assert (operation["op"], operation["path"]) == ("add", "/spec/initContainers/0/env/-")
        (own,) = (entry for entry in remap_containers(it.after)[0]["env"] if entry["name"] == "NVIDIA_VISIBLE_DEVICES")
        assert operation["value"] == own
    assert len(operations(again)) <= 1


def without_permissions_no_container_that_stays_sees_every_gpu(it: Admission) -> None:
    if it.outcome.kind not in (Kind.PATCH, Kind.DEGRADED):
        return
    if it.outcome.profile in ("", "observe") or it.outcome.reason == "observed":  # it is not prepared
        return
    ours = remap_containers(it.after)
    for holder, entry in variables(it.after):
        if entry["name"] == "NVIDIA_VISIBLE_DEVICES" and entry.get("value") not in (None, "", "none", "void"):
            assert holder in ours
            assert (entry["value"], holder.get("restartPolicy")) == ("all", None)


def an_annotation_of_ours_that_a_container_refers_to_is_never_removed(it: Admission) -> None:
    before = it.pod["metadata"].get("annotations") or {}
    for _, entry in variables(it.after):
        path = ((entry.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
        key = path.removeprefix("metadata.annotations['").removesuffix("']")
        if key in before:
            assert key in it.after["metadata"]["annotations"]


def the_count_of_gpus_never_changes_and_limits_equal_requests_where_we_set_them(it: Admission) -> None:
    for old, new in zip(it.pod["spec"]["containers"], it.after["spec"]["containers"], strict=True):
        limits = (old.get("resources") or {}).get("limits") or {}
        if "nvidia.com/gpu" in limits:
            assert new["resources"]["limits"]["nvidia.com/gpu"] == limits["nvidia.com/gpu"]
        if new.get("resources") != old.get("resources"):
            sections = new["resources"]
            for resource in GPU_RESOURCES:
                assert str(sections["limits"].get(resource)) == str(sections["requests"].get(resource))


def who_asks_whether_a_pod_would_be_observed_is_told_what_admission_does(it: Admission) -> None:
    pod = msgspec.json.decode(to_json(it.pod), type=Pod)
    outcome = admit(pod, it.namespace, it.rules, it.cluster, claim_specs=it.specs)
    expected = outcome.profile if outcome.reason is Reason.OBSERVED else None
    try:
        view = claim_view(pod, it.specs, it.rules, it.cluster.overruled_by(it.rules.versions))
        requests = read_requests(pod, it.rules.resources, it.rules.default_count, view)
    except Refused:
        assert expected is None
    else:
        assert profile_if_observed(pod, it.namespace, requests, it.rules) is expected


def containers_of(manifest: Manifest) -> list[Manifest]:
    return [*(manifest["spec"].get("initContainers") or []), *manifest["spec"]["containers"]]


def claims_of(container: Manifest) -> list[Manifest]:
    return (container.get("resources") or {}).get("claims") or []


def profiles_of(container: Manifest) -> list[str]:
    return [entry.get("value", "") for entry in container.get("env") or [] if entry["name"] == "GPU_TOPOLOGY_PROFILE"]


def is_prepared_by_claims(it: Admission) -> bool:
    family = {"name": "GPU_TOPOLOGY_ALLOCATED_BY", "value": "claim"}
    return it.after != it.pod and any(family in (ours.get("env") or []) for ours in remap_containers(it.after))


def prepared_containers(it: Admission) -> list[Manifest]:
    """Those whose GPUs the remap program is told of, and that are not left out."""
    (ours,) = remap_containers(it.after)
    (told,) = (entry["value"] for entry in ours["env"] if entry["name"] == "GPU_TOPOLOGY_CONTAINERS")
    entries = [entry.split(":") for entry in told.split(",")]
    names = {name for name, _, _, *flags in entries if "left-out" not in "".join(flags)}
    return [container for container in containers_of(it.after) if container["name"] in names]


def a_container_that_gets_its_gpus_by_claims_alone_gets_nothing_of_hami_and_no_list_of_gpus(it: Admission) -> None:
    if not is_prepared_by_claims(it) or any(key in str(it.pod["spec"]) for key in GPU_RESOURCES):
        return
    ours = remap_containers(it.after)
    unwanted = {"CUDA_DISABLE_CONTROL", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"}
    assert not [
        entry for holder, entry in added_variables(it.pod, it.after) if entry["name"] in unwanted and holder not in ours
    ]
    added = it.after["metadata"]["annotations"].keys() - (it.pod["metadata"].get("annotations") or {}).keys()
    assert not [key for key in added if key in FOREIGN_ANNOTATIONS or OF_VISIBLE_GPUS.fullmatch(key)]
    assert not [entry for entry in ours[0]["env"] if entry["name"] == "NVIDIA_VISIBLE_DEVICES"]


def the_remap_container_refers_to_the_claims_of_prepared_containers_and_to_no_others(it: Admission) -> None:
    if not is_prepared_by_claims(it):
        return
    (ours,) = remap_containers(it.after)
    prepared = prepared_containers(it)
    entries = {use["name"] for holder in prepared for use in claims_of(holder)}
    without_gpus = {"nic", "admin"}
    unknown = {"unread"}
    found = {use["name"] for use in claims_of(ours)}
    if it.rules.remap.sees_gpus:
        assert entries - without_gpus - unknown <= found <= entries - without_gpus
    else:
        assert found == set()
    pairs = [(use["name"], use.get("request", "")) for use in claims_of(ours)]
    assert len(set(pairs)) == len(pairs)
    assert not [name for name, request in pairs if request and (name, "") in pairs]


def containers_with_claims_are_told_one_profile(it: Admission) -> None:
    if is_prepared_by_claims(it):
        for holder in prepared_containers(it):
            assert profiles_of(holder)[-1] == it.outcome.profile


def peers_with_claims_use_the_same_ones_or_share_a_named_one(it: Admission) -> None:
    if not is_prepared_by_claims(it):
        return
    prepared = prepared_containers(it)
    gpus = [{(use["name"], use.get("request", "")) for use in claims_of(holder)} for holder in prepared]
    known = [{use for use in uses if use[0] not in ("nic", "admin", "unread")} for uses in gpus]
    if it.outcome.profile == "pod-peers" and any(known):
        assert all(uses == known[0] for uses in known)
    if it.outcome.profile == "node-peers":
        named = {entry["name"] for entry in it.pod["spec"]["resourceClaims"] if "resourceClaimName" in entry}
        assert {name for uses in known for name, _ in uses} <= named


def parts_and_gpus_of_hamis_dra_driver_are_never_prepared(it: Admission) -> None:
    if is_prepared_by_claims(it):
        entries = {use["name"] for holder in prepared_containers(it) for use in claims_of(holder)}
        assert not entries & {"mig", "mps", "hami"}


OF_CLAIMS = (
    a_container_that_gets_its_gpus_by_claims_alone_gets_nothing_of_hami_and_no_list_of_gpus,
    the_remap_container_refers_to_the_claims_of_prepared_containers_and_to_no_others,
    containers_with_claims_are_told_one_profile,
    peers_with_claims_use_the_same_ones_or_share_a_named_one,
    parts_and_gpus_of_hamis_dra_driver_are_never_prepared,
)
LAWS = (
    the_label_stands_on_pods_that_wait_and_on_no_others,
    no_pod_begins_to_wait_unless_a_planner_is_there_and_may_choose,
    the_patch_applies_and_a_second_admission_adds_nothing,
    no_field_of_the_user_is_lost_or_changed_beside_those_that_are_documented,
    a_pod_that_is_left_alone_or_refused_gets_no_patch_and_a_refused_one_a_message,
    no_pod_that_is_created_keeps_an_output_that_somebody_else_wrote,
    each_annotation_that_a_new_variable_refers_to_has_a_value,
    a_file_that_a_new_variable_reads_is_one_that_the_remap_container_alone_can_write,
    no_container_becomes_privileged,
    after_defaulting_and_hami_only_the_remap_containers_list_of_gpus_is_put_last_again,
    an_annotation_of_ours_that_a_container_refers_to_is_never_removed,
    the_count_of_gpus_never_changes_and_limits_equal_requests_where_we_set_them,
    who_asks_whether_a_pod_would_be_observed_is_told_what_admission_does,
)
WITHOUT_PERMISSIONS = (
    without_permissions_nobody_is_shown_gpus_by_the_word_of_an_annotation,
    without_permissions_nothing_reaches_beyond_the_pod,
    without_permissions_no_container_that_stays_sees_every_gpu,
)


# Drawing a pod takes ten times as long as admitting it. Half of the pods are left alone, which most laws pass over.
@settings(max_examples=3 * settings().max_examples)
@given(pods(), namespaces(), namespaces(permissions=False), clusters, policies)
def test_every_law_holds_for_every_pod(
    pod: Manifest, namespace: Namespace, bare: Namespace, cluster: ClusterFacts, rules: AdmitPolicy
) -> None:
    check_laws(LAWS, admission(pod, namespace, cluster, rules))
    check_laws(WITHOUT_PERMISSIONS, admission(pod, bare, cluster, rules))


@given(claim_pods(), namespaces(), namespaces(permissions=False), clusters, claim_policies)
def test_every_law_holds_for_every_pod_with_claims(
    pod: Manifest, namespace: Namespace, bare: Namespace, cluster: ClusterFacts, rules: AdmitPolicy
) -> None:
    check_laws([*LAWS, *OF_CLAIMS], admission(pod, namespace, cluster, rules, CLAIM_SPECS))
    check_laws([*WITHOUT_PERMISSIONS, *OF_CLAIMS], admission(pod, bare, cluster, rules, CLAIM_SPECS))


def test_a_law_that_does_not_hold_is_named() -> None:
    def pods_are_never_changed(it: Admission) -> None:
        assert it.after == it.pod

    changed = admission(make_pod(), TEAM_A, HAMI_2_9, policy())
    check_laws([the_patch_applies_and_a_second_admission_adds_nothing], changed)
    with pytest.raises(AssertionError, match="assert") as failure:
        check_laws([the_patch_applies_and_a_second_admission_adds_nothing, pods_are_never_changed], changed)
    assert failure.value.__notes__ == ["This law does not hold: pods_are_never_changed"]

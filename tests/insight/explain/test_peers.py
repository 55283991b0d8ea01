"""Containers of a pod, and pods of a node, that reach each other's GPU memory."""

from typing import Any

import pytest

from tests.hardware.topology import machines
from tests.insight.explain.situations import H20, decoded, existing, failing, finding, injected, known, on, said, told
from tests.judge import policy
from tests.pods import SHARED_MEMORY, Manifest, container, pod
from webhook.insight.explain.findings import Finding

POD_PEERS = {"gpu.topology/profile": "pod-peers"}
NODE_PEERS = {"gpu.topology/profile": "node-peers", "gpu.topology/group": "serving"}
CONDITIONS = ("host-hash", "shared-memory", "network-namespace", "pid-namespace", "visibility")


def two(annotations: dict[str, str] | None = None, **spec: Any) -> Manifest:
    return pod(container("prefill"), container("decode"), annotations=annotations, **spec)


def member(name: str, node: str = "h20-node-1", gpus: tuple[str, ...] = H20[2:4], **spec: Any) -> Manifest:
    """Another pod of the group, as the webhook prepared it; on its node unless that is empty."""
    made = injected(pod(container(gpus=2), annotations=NODE_PEERS) | {"spec": {"containers": [container()], **spec}})
    made["metadata"]["name"] = name
    return on(made, node, list(gpus)) if node else made


def verdicts(manifest: Manifest, others: tuple[Manifest, ...] | None = None) -> dict[str, str]:
    report = told(manifest, others=others)
    return {name: str(finding(report, name).verdict) for name in CONDITIONS}


def test_several_containers_without_a_profile_are_told_what_they_lack() -> None:
    assert said(told(two()), "peers") == (
        "not-needed",
        (
            "profile exclusive: containers prefill and decode work on their own GPUs each; without "
            "shareProcessNamespace CUDA IPC between them fails. If they are to reach each other's, set "
            "gpu.topology/profile: pod-peers"
        ),
    )


def test_a_volume_over_the_hosts_shared_memory_is_told() -> None:
    own = container(volumeMounts=[{"name": "shm", "mountPath": SHARED_MEMORY}])
    report = told(pod(own, hostIPC=True, volumes=[{"name": "shm", "emptyDir": {}}]))
    assert finding(report, "peers").evidence.endswith(
        "container train mounts a volume at /dev/shm: to NCCL in other pods of the node that is another machine"
    )


def test_an_injected_pod_of_peers_has_everything() -> None:
    assert verdicts(injected(two(POD_PEERS))) == dict.fromkeys(CONDITIONS, "holds")


def test_a_pod_of_peers_that_nobody_prepared_shares_neither_processes_nor_gpus() -> None:
    report = told(two(POD_PEERS))
    assert verdicts(two(POD_PEERS)) == {
        "host-hash": "holds",
        "shared-memory": "holds",
        "network-namespace": "holds",
        "pid-namespace": "fails",
        "visibility": "fails",
    }
    assert finding(report, "visibility").evidence == "containers prefill and decode see no GPUs but their own"
    assert finding(report, "pid-namespace").remedy == ("Set gpu.topology/profile: pod-peers and create the pod again")


def test_containers_with_different_host_ids_are_on_different_nodes_to_nccl() -> None:
    manifest = pod(
        container("prefill", env=[{"name": "NCCL_HOSTID", "value": "a"}]),
        container("decode", env=[{"name": "NCCL_HOSTID", "value": "b"}]),
        annotations=POD_PEERS,
    )
    assert said(told(manifest), "host-hash") == (
        "fails",
        "containers prefill and decode have different values of NCCL_HOSTID: to NCCL they are on different nodes",
    )


def test_containers_with_different_shared_memory_drop_p2p() -> None:
    own = container("prefill", volumeMounts=[{"name": "shm", "mountPath": SHARED_MEMORY}])
    manifest = pod(own, container("decode"), annotations=POD_PEERS, volumes=[{"name": "shm", "emptyDir": {}}])
    assert said(told(manifest), "shared-memory") == (
        "fails",
        "containers have different devices at /dev/shm (no volume and shm), so NCCL drops P2P",
    )


def test_without_the_strategy_envvar_peers_stay_hidden() -> None:
    rules = policy(cluster={"deviceListStrategy": "cdi-cri"})
    verdict, evidence = said(told(existing(two(POD_PEERS)), rules=rules), "visibility")
    assert verdict == "fails"
    assert evidence.startswith(
        "GT505: profile pod-peers needs the device list strategy envvar, this cluster has cdi-cri"
    )


def isolated(name: str, gpus: tuple[str, ...]) -> Manifest:
    """An isolated pod of the group, as the webhook prepared it."""
    wish = pod(container(gpus=2), annotations=NODE_PEERS | {"gpu.topology/isolation": "isolated"})
    made = injected(wish)
    made["metadata"]["name"] = name
    return on(made, "h20-node-1", list(gpus))


def test_isolated_pods_need_no_namespace_of_the_host_and_whether_they_reach_each_other_is_not_known() -> None:
    here = isolated("prefill-0", H20[:2])
    report = told(here, others=(isolated("decode-0", H20[2:4]),))
    told_of = {"same-node", "users", *CONDITIONS}
    assert {each.condition: str(each.verdict) for each in report.findings if each.condition in told_of} == {
        "same-node": "holds",
        "shared-memory": "not-needed",
        "pid-namespace": "unknown",
        "visibility": "holds",
    }
    assert finding(report, "pid-namespace").code == "GT551"
    assert failing(report) == ["told-at-binding"]  # no binding webhook ran in this test


@pytest.mark.parametrize("lost", ["shareProcessNamespace", "initContainers"])
def test_an_isolated_pod_whose_process_ids_are_those_of_its_peers_is_told(lost: str) -> None:
    here = isolated("prefill-0", H20[:2])
    del here["spec"][lost]
    assert finding(told(here), "pid-namespace").code == "GT552"


def test_an_isolated_pod_in_the_process_ids_of_the_host_is_judged_as_one_of_the_host() -> None:
    here = isolated("prefill-0", H20[:2])
    here["spec"] |= {"hostPID": True, "shareProcessNamespace": False}
    assert said(told(here), "pid-namespace") == ("holds", "the pod is in the host's PID namespace")


def test_pods_of_a_group_that_nobody_prepared_are_strangers() -> None:
    manifest = pod(labels={"gpu.topology/group": "serving"})
    assert verdicts(manifest) == {
        "host-hash": "fails",
        "shared-memory": "fails",
        "network-namespace": "fails",
        "pid-namespace": "fails",
        "visibility": "fails",
    }
    report = told(manifest)
    assert said(report, "host-hash")[1] == "container train has no NCCL_HOSTID: to NCCL the pod is a node of its own"


@pytest.mark.parametrize(
    "manifest",
    [
        pod(container(env=[{"name": "NCCL_HOSTID", "value": "x"}])),
        pod(annotations={"gpu.topology/group": "serving"}),
        pod(hostIPC=True, hostPID=True),
    ],
)
def test_what_somebody_did_by_hand_shows_that_there_are_peers(manifest: Manifest) -> None:
    assert finding(told(manifest), "host-hash").verdict == "fails"


@pytest.mark.parametrize(
    ("others", "verdict", "evidence"),
    [
        (None, "unknown", "the other pods of group serving are not known here"),
        ((), "unknown", "there is no other pod of group serving"),
        ((member("decode-0", node=""),), "unknown", "the other pods of group serving are not scheduled yet"),
        (
            (member("decode-0"), member("decode-1", node="h20-node-2")),
            "fails",
            "decode-1 is on node h20-node-2, this pod on h20-node-1",
        ),
    ],
)
def test_peers_must_be_on_one_node(others: tuple[Manifest, ...] | None, verdict: str, evidence: str) -> None:
    report = told(member("prefill-0", gpus=H20[:2]), others=others)
    assert said(report, "same-node") == (verdict, evidence)


def test_pods_without_a_group_have_peers_that_nobody_knows() -> None:
    manifest = injected(pod(annotations={"gpu.topology/profile": "node-peers"}))
    assert said(told(manifest), "same-node") == (
        "unknown",
        "the pod has no group (gpu.topology/group), so its peers are not known",
    )


def test_a_peer_in_the_hosts_network_has_another_hash() -> None:
    other = member("decode-0")
    other["spec"] |= {"hostNetwork": True, "hostIPC": False, "hostPID": False}
    for main in other["spec"]["containers"]:
        main["env"] = [entry for entry in main["env"] if entry["name"] != "NCCL_HOSTID"]
    report = told(member("prefill-0", gpus=H20[:2]), others=(other,))
    assert said(report, "host-hash") == ("fails", "decode-0 on the same node: another host hash than this pod")
    assert said(report, "shared-memory") == ("fails", "decode-0 on the same node: not in the host's IPC namespace")
    assert said(report, "pid-namespace") == ("fails", "decode-0 on the same node: not in the host's PID namespace")


def test_a_volume_at_shared_memory_parts_pods_in_the_hosts_namespace() -> None:
    own = container(volumeMounts=[{"name": "shm", "mountPath": SHARED_MEMORY}])
    manifest = pod(
        own, annotations=NODE_PEERS, hostIPC=True, volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    )
    assert said(told(existing(manifest)), "shared-memory") == (
        "fails",
        "container train mounts volume shm over the host's /dev/shm, so NCCL drops P2P between pods",
    )


def test_a_withheld_namespace_fails_although_the_pod_was_injected() -> None:
    manifest = injected(pod(annotations=NODE_PEERS | {"gpu.topology/host-ipc": "false"}))
    report = told(manifest)
    assert finding(report, "prepared").verdict == "holds"
    assert finding(report, "shared-memory").verdict == "fails"
    assert finding(report, "pid-namespace").verdict == "holds"


@pytest.mark.parametrize(
    ("spec", "env", "verdict"),
    [
        ({"hostNetwork": True}, {}, "holds"),
        ({}, {"NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}, "holds"),
        ({}, {"NCCL_CUMEM_ENABLE": "0"}, "fails"),  # NVLink SHARP is set up over a socket all the same
        ({}, {"NCCL_CUMEM_ENABLE": "1"}, "fails"),
        ({}, {"NCCL_IPC_USE_ABSTRACT_SOCKET": "0"}, "unknown"),
    ],
)
def test_memory_handles_need_a_common_network_or_cuda_ipc(
    spec: dict[str, Any], env: dict[str, str], verdict: str
) -> None:
    entries = [{"name": name, "value": value} for name, value in env.items()]
    manifest = pod(container(env=entries), annotations=NODE_PEERS, **spec)
    assert finding(told(existing(manifest)), "network-namespace").verdict == verdict


def test_a_host_id_that_is_a_constant_would_join_nodes() -> None:
    manifest = pod(container(env=[{"name": "NCCL_HOSTID", "value": "same"}]), annotations=NODE_PEERS)
    assert said(told(existing(manifest)), "host-hash") == (
        "fails",
        "container train has a NCCL_HOSTID that is not the name of the node (fieldRef spec.nodeName)",
    )


def test_the_host_network_gives_the_name_of_the_node() -> None:
    manifest = injected(pod(annotations=NODE_PEERS | {"gpu.topology/host-network": "true"}))
    assert said(told(manifest), "host-hash") == ("holds", "the host network gives it the name of the node")


TRAY = machines.gb200_tray()
JOB = {"name": "MASTER_ADDR", "value": "train-0"}
CHANNEL = {"name": "NVIDIA_IMEX_CHANNELS", "value": "0"}


@pytest.mark.parametrize(
    ("env", "annotations", "verdict"),
    [
        ((), {}, "not-needed"),
        (({"name": "NCCL_MNNVL_ENABLE", "value": "1"},), {}, "unknown"),
        (({"name": "NCCL_MNNVL_ENABLE", "value": "1"}, CHANNEL), {}, "not-needed"),
        ((JOB,), {}, "unknown"),
        ((JOB, CHANNEL), {}, "holds"),
        ((JOB, {"name": "NCCL_MNNVL_ENABLE", "value": "0"}), {}, "not-needed"),
        ((JOB, CHANNEL), NODE_PEERS, "fails"),
        ((JOB, CHANNEL), NODE_PEERS | {"gpu.topology/host-network": "true"}, "holds"),
    ],
)
def test_nvlink_to_other_nodes_needs_cumem_and_a_channel(
    env: tuple[dict[str, str], ...], annotations: dict[str, str], verdict: str
) -> None:
    prepared = injected(pod(container(env=list(env)), annotations=annotations))
    manifest = on(prepared, "gb200-tray", [gpu.uuid for gpu in TRAY.gpus[:2]])
    assert finding(told(manifest, sources=known(TRAY)), "nvlink-fabric").verdict == verdict


def test_where_nvlink_ends_at_the_node_nothing_is_said_of_other_nodes() -> None:
    report = told(on(injected(pod(container(env=[JOB]))), "h20-node-1", list(H20[:2])))
    assert "nvlink-fabric" not in [one.condition for one in report.findings]


@pytest.mark.parametrize("profile", ["pod-peers", "node-peers"])
def test_a_command_that_sets_a_list_sees_the_gpus_of_others_and_fails(profile: str) -> None:
    def shown(text: str) -> Finding:
        manifest = pod(container(args=["-c", text]), annotations={"gpu.topology/profile": profile})
        return finding(told(injected(manifest)), "visibility")

    sets = shown("CUDA_VISIBLE_DEVICES=$(nvidia-smi -L | wc -l) train")
    assert (sets.verdict, sets.code) == ("fails", "GT423")
    assert sets.evidence.startswith("a command of container train sets CUDA_VISIBLE_DEVICES, ")
    assert shown("echo $CUDA_VISIBLE_DEVICES; train").verdict == "holds"


def test_a_privileged_container_sees_more_than_the_gpus_of_its_pod() -> None:
    def own(profile: str) -> Finding:
        manifest = pod(container(securityContext={"privileged": True}), annotations={"gpu.topology/profile": profile})
        return finding(told(injected(manifest)), "own-gpus")

    assert (own("pod-peers").verdict, own("pod-peers").code) == ("fails", "GT227")
    assert own("node-peers").verdict == "not-needed"


OF_TRAINING = {"training.kubeflow.org/job-name": "train"}


def rank(name: str = "train", gpus: int = 1, **labels: str) -> Manifest:
    made = on(pod(container(gpus=gpus), labels=OF_TRAINING | labels), "h20-node-1", list(H20[:gpus]))
    made["metadata"]["name"] = name
    return made


def test_two_ranks_of_a_job_on_one_node_have_no_nvlink_between_them() -> None:
    report = told(rank(), ranks=(decoded(rank("train-1")),))
    found = finding(report, "peers")
    assert (report.judgement.nvlink, report.judgement.code, found.stops) == ("no", "GT574", True)
    assert "the pod is a rank of training job train, and so is train-1 on node h20-node-1" in found.evidence
    several = told(rank(gpus=2), ranks=(decoded(rank("train-1", gpus=2)),))
    assert (several.reach, finding(several, "peers").stops) == ("some", False)


def test_a_rank_whose_others_are_not_known_is_unknown_and_one_without_others_here_has_nothing_to_join() -> None:
    open_one = told(rank())
    assert (open_one.judgement.nvlink, open_one.judgement.code) == ("unknown", "GT575")
    alone = told(rank(), knows_ranks=True)
    assert (alone.judgement.nvlink, alone.judgement.code) == ("-", "")
    assert alone.judgement.reason == (
        "each container has one GPU, and no other rank of training job train is on its node"
    )


def test_a_rank_of_a_job_without_a_label_is_unknown_even_if_all_pods_are_known() -> None:
    """Nobody can tell which of the pods are its other ranks."""
    env = [{"name": "MASTER_ADDR", "value": "train-0"}, {"name": "WORLD_SIZE", "value": "8"}]
    manifest = on(pod(container(gpus=1, env=env)), "h20-node-1", [H20[0]])
    found = told(manifest, knows_ranks=True).judgement
    assert (found.nvlink, found.code) == ("unknown", "GT575")

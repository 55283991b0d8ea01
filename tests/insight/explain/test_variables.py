"""Variables of NCCL and UCX, who set them, and which of them turn NVLink off."""

from typing import Any

import pytest

from tests.hardware.topology import machines
from tests.insight.explain.situations import H20, annotated, decoded, finding, injected, known, on, said, told
from tests.insight.explain.test_nvlink import verified
from tests.judge import HAMI_2_9, TEAM_A, policy
from tests.pods import ALL_ALLOWED, Manifest, container, pod, team_a
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.insight.explain.findings import Finding, Report
from webhook.words.version import Version


def of_pod(name: str, value: str, **fields: Any) -> Finding:
    """The finding about a literal of a pod with two GPUs of an NVSwitch machine."""
    manifest = pod(container(env=[{"name": name, "value": value}]), **fields)
    return finding(told(on(manifest, "h20-node-1", list(H20[:2]))), name)


def test_a_pod_without_variables_has_the_defaults() -> None:
    assert said(told(pod()), "nccl-variables") == (
        "holds",
        (
            "container train sets none: NCCL's own defaults hold, which use NVLink, "
            "unless the image or /etc/nccl.conf says otherwise"
        ),
    )


P2P, LEVEL, NVLS = "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_NVLS_ENABLE"
STOPPING = [(P2P, "1"), (P2P, " 01"), (P2P, "0" * 5000 + "1"), (LEVEL, "LOC"), (LEVEL, "0"), ("NCCL_GRAPH_FILE", "")]
HARMLESS = [
    *((P2P, value) for value in ("0", "true", "1" * 5000, "")),
    *((LEVEL, value) for value in ("NVL", "nvl", "1", "")),
    *(("NCCL_SHM_DISABLE", "0"), ("NCCL_SHM_DISABLE", "1"), (NVLS, "1"), (NVLS, ""), ("NCCL_DEBUG", "INFO")),
    *(("NCCL_TOPO_FILE", ""), ("NCCL_HOSTID", "a"), ("NCCL_CONF_FILE", ""), ("NCCL_IGNORE_DISABLED_P2P", "0")),
]
OPEN = [
    ("NCCL_CONF_FILE", "/etc/other.conf", "Look there for variables that begin with NCCL_"),
    ("NCCL_TOPO_FILE", "/etc/topo.xml", "Look what NCCL makes of it: NCCL_DEBUG=INFO, and NCCL_TOPO_DUMP_FILE="),
    ("NCCL_GRAPH_FILE", "/g.xml", ""),
    ("NCCL_IGNORE_DISABLED_P2P", "1", ""),
]
REMOVE = "Remove the variable"


@pytest.mark.parametrize(
    ("name", "value", "verdict", "stops", "remedy"),
    [
        *((name, value, "fails", True, REMOVE) for name, value in STOPPING),
        *((name, value, "holds", False, "") for name, value in HARMLESS),
        *((name, value, "unknown", False, remedy) for name, value, remedy in OPEN),
        (NVLS, "0", "fails", False, REMOVE),  # NVLink SHARP, which these GPUs have; NVLink itself stays on
    ],
)
def test_a_value_stops_nvlink_leaves_it_on_or_is_not_known(
    name: str, value: str, verdict: str, stops: bool, remedy: str
) -> None:
    found = of_pod(name, value)
    assert (found.verdict, found.stops, found.remedy.startswith(remedy)) == (verdict, stops, True)


@pytest.mark.parametrize(
    ("level", "is_known"), [*((each, False) for each in ("nvl", "NVL ", "NET", "-1", "banana")), ("PXB", True)]
)
def test_a_level_that_nccl_does_not_know_is_said_to_be_ignored(level: str, is_known: bool) -> None:
    assert of_pod(LEVEL, level).evidence.endswith("(NCCL knows no such level, and ignores it)") is not is_known


def test_a_wrong_value_of_the_webhook_is_not_for_the_pod_to_remove() -> None:
    manifest = on(annotated(injected(pod()), **{"nccl-nvls": "0"}), "h20-node-1", list(H20[:2]))
    found = finding(told(manifest), "NCCL_NVLS_ENABLE")
    assert found.verdict == "fails"
    assert found.remedy == (
        "The webhook writes annotation gpu.topology/nccl-nvls at the Binding: see told-at-binding, "
        "and create the pod again"
    )


def test_a_wrong_value_of_an_annotation_is_corrected_there() -> None:
    manifest = injected(pod(annotations={"gpu.topology/env.NCCL_P2P_DISABLE": "1"}))
    found = finding(told(manifest), "NCCL_P2P_DISABLE")
    assert found.verdict == "fails"
    assert found.remedy == ("Correct annotation gpu.topology/env.NCCL_P2P_DISABLE of the pod and create the pod again")


def test_sharp_that_the_gpus_have_not_should_not_be_forced() -> None:
    manifest = pod(container(env=[{"name": "NCCL_NVLS_ENABLE", "value": "1"}]))
    bound = on(manifest, "dgx1-v100", [machines.uuid(0), machines.uuid(3)])
    found = finding(told(bound, sources=known(machines.dgx1_v100())), "NCCL_NVLS_ENABLE")
    assert found.verdict == "fails"
    assert found.evidence.endswith("(it skips NCCL's test for NVLink SHARP, which these GPUs do not have)")


def test_without_nvlink_between_all_pairs_shared_memory_is_missed() -> None:
    manifest = pod(container(env=[{"name": "NCCL_SHM_DISABLE", "value": "1"}]))
    bound = on(manifest, "dgx1-v100", [machines.uuid(0), machines.uuid(5)])
    assert finding(told(bound, sources=known(machines.dgx1_v100())), "NCCL_SHM_DISABLE").verdict == "fails"


@pytest.mark.parametrize(
    "source",
    [
        {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"value": "$(LEVEL)"},
    ],
)
def test_a_value_that_is_decided_elsewhere_is_not_known(source: Manifest) -> None:
    manifest = pod(container(env=[{"name": "NCCL_P2P_LEVEL", **source}]))
    verdict, evidence = said(told(manifest), "NCCL_P2P_LEVEL")
    assert verdict == "unknown"
    assert evidence.startswith("container train: not known here, set by the pod")


def test_containers_that_differ_are_told_apart() -> None:
    off, on_ = ({"name": "NCCL_P2P_DISABLE", "value": value} for value in ("1", "0"))
    report = told(pod(container("a", env=[off]), container("b", env=[on_]), container("c", env=[off])))
    found = [finding for finding in report.findings if finding.condition == "NCCL_P2P_DISABLE"]
    assert [(str(finding.verdict), finding.evidence) for finding in found] == [
        ("fails", 'containers a and c: "1", set by the pod (it turns P2P off, and with it NVLink)'),
        ("holds", 'container b: "0", set by the pod (only the number 1 has an effect)'),
    ]


def test_a_config_map_may_hide_more() -> None:
    report = told(pod(container(envFrom=[{"configMapRef": {"name": "c"}}]), container("b", envFrom=[])))
    assert said(report, "env-from") == (
        "unknown",
        "container train takes variables from a ConfigMap or Secret (envFrom), which is not looked at",
    )


def test_what_the_webhook_set_is_its_own() -> None:
    rules = policy(nccl={table: {"NCCL_ALGO": "Ring"} for table in ("nvswitch", "nvlink", "pcie")})
    prepared = injected(
        pod(
            container(env=[{"name": "NCCL_DEBUG", "value": "INFO"}]),
            annotations={"gpu.topology/env.NCCL_NTHREADS": "256"},
        ),
        team_a({"gpu.topology/env.NCCL_BUFFSIZE": "8"}),
        rules=rules,
    )
    bound = annotated(prepared, **{"nccl-p2p-level": "NVL"})
    report = told(bound, team_a({"gpu.topology/env.NCCL_BUFFSIZE": "8"}), rules=rules)
    setters = {
        finding.condition: finding.evidence.removeprefix("container train: ")
        for finding in report.findings
        if finding.condition.startswith("NCCL_")
    }
    assert setters == {
        "NCCL_ALGO": '"Ring", set by the webhook',
        "NCCL_BUFFSIZE": '"8", set by the webhook, for annotation gpu.topology/env.NCCL_BUFFSIZE of the namespace',
        "NCCL_DEBUG": '"INFO", set by the pod',
        "NCCL_NTHREADS": '"256", set by the webhook, for annotation gpu.topology/env.NCCL_NTHREADS of the pod',
        "NCCL_NVLS_ENABLE": '"2", set by the webhook, through annotation gpu.topology/nccl-nvls',
        "NCCL_P2P_LEVEL": '"NVL", set by the webhook, through annotation gpu.topology/nccl-p2p-level',
        "NCCL_TOPO_FILE": '"/run/gpu-topology/nccl-topo.xml", set by the webhook',
    }


def test_what_comes_from_the_file_of_the_remap_program_is_foretold() -> None:
    rules = policy(remap={"environment": "file"})
    cluster = ClusterFacts(hami=HAMI_2_9.hami, kubernetes=Version(1, 35))
    prepared = injected(pod(), cluster=cluster, rules=rules)
    report = told(on(prepared, "h20-node-1", list(H20[:2])), cluster=cluster, rules=rules)
    assert said(report, "NCCL_P2P_LEVEL") == (
        "holds",
        (
            'container train: "auto", set by the remap program, through its file '
            "(no level of NCCL's, so that its own default holds)"
        ),
    )


@pytest.mark.parametrize(
    ("value", "profile", "verdict"),
    [
        ("cuda_ipc,tcp", "pod-peers", "holds"),
        ("all", "pod-peers", "holds"),
        ("", "pod-peers", "holds"),
        ("^tcp", "pod-peers", "holds"),
        ("tcp,sm", "pod-peers", "fails"),
        ("^cuda_ipc", "pod-peers", "fails"),
        ("tcp", "exclusive", "not-needed"),
    ],
)
def test_ucx_needs_cuda_ipc_among_peers(value: str, profile: str, verdict: str) -> None:
    manifest = pod(
        container("a", env=[{"name": "UCX_TLS", "value": value}]),
        container("b"),
        annotations={"gpu.topology/profile": profile},
    )
    assert finding(told(manifest, ALL_ALLOWED), "UCX_TLS").verdict == verdict


@pytest.mark.parametrize(("profile", "is_limited"), [("exclusive", True), ("pod-peers", False), ("node-peers", False)])
def test_that_ucx_may_use_cuda_ipc_opens_no_way_to_others_in_exclusive(profile: str, is_limited: bool) -> None:
    env = [{"name": "UCX_TLS", "value": "cuda_ipc,tcp"}]
    manifest = pod(container(env=env), annotations={"gpu.topology/profile": profile})
    verdict, evidence = said(told(manifest, ALL_ALLOWED), "UCX_TLS")
    assert verdict == "holds"
    assert ("reaches no other container or pod" in evidence) is is_limited


@pytest.mark.parametrize(
    ("value", "spec", "verdict"),
    [("0", {}, "holds"), ("2", {}, "fails"), ("1", {}, "fails"), ("2", {"hostNetwork": True}, "holds")],
)
def test_nvlink_sharp_between_pods_needs_the_network_of_the_host(
    value: str, spec: dict[str, Any], verdict: str
) -> None:
    entries = [{"name": "NCCL_NVLS_ENABLE", "value": value}]
    manifest = pod(container(env=entries), annotations={"gpu.topology/profile": "node-peers"}, **spec)
    assert finding(told(manifest), "NCCL_NVLS_ENABLE").verdict == verdict


def test_what_the_webhooks_configuration_file_of_nccl_sets_is_told() -> None:
    rules = policy(nccl={"nvswitch": {"NCCL_MIN_NCHANNELS": "32"}, "pcie": {"NCCL_PROTO": "Simple"}})
    prepared = injected(pod(), rules=rules)
    assert said(told(on(prepared, "h20-node-1", list(H20[:2])), rules=rules), "NCCL_CONF_FILE") == (
        "holds",
        'container train: "/run/gpu-topology/nccl.conf", set by the webhook (it sets NCCL_MIN_NCHANNELS=32)',
    )
    assert said(told(prepared, rules=rules), "NCCL_CONF_FILE")[0] == "unknown"


def commanded(text: str, **fields: Any) -> Report:
    """The report on a verified pod with two linked GPUs whose program a shell starts."""
    manifest = injected(pod(container(command=["bash", "-c", text], **fields)))
    return told(verified(on(manifest, "h20-node-1", list(H20[:2]))), TEAM_A)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("export NCCL_P2P_DISABLE=1; torchrun train.py", "no"),
        ("mpirun -x NCCL_P2P_DISABLE=1 train", "no"),
        ('python -c \'import os; os.environ["NCCL_P2P_DISABLE"] = "1"; main()\'', "no"),
        ("if [ $A ]; then export NCCL_P2P_DISABLE=1; fi; train", "unknown"),
        ("train".ljust(70_000) + "$NCCL_P2P_DISABLE", "unknown"),
        ("train".ljust(70_000) + "$NCCL_DEBUG", "yes"),
        ("export NCCL_P2P_DISABLE=0; torchrun train.py", "yes"),
        ("unset NCCL_P2P_DISABLE; torchrun train.py", "yes"),
        ("echo NCCL_P2P_DISABLE=1; torchrun train.py", "yes"),
    ],
)
def test_a_command_turns_the_answer_to_no_or_unknown(text: str, word: str) -> None:
    assert commanded(text).judgement.nvlink == word


def test_the_place_of_a_switch_is_named() -> None:
    found = finding(commanded("export NCCL_P2P_DISABLE=1; train"), "NCCL_P2P_DISABLE")
    assert (found.code, found.remedy) == ("GT412", "Remove the assignment from command")
    assert found.evidence.startswith('container train: "1", set by the pod, in command')


def test_a_command_never_turns_the_answer_to_yes() -> None:
    env = [{"name": "NCCL_P2P_DISABLE", "value": "1"}]
    assert commanded("train", env=env).judgement.nvlink == "no"
    assert commanded("unset NCCL_P2P_DISABLE; train", env=env).judgement.nvlink == "unknown"
    assert commanded("export NCCL_P2P_DISABLE=0; train", env=env).judgement.nvlink == "unknown"


@pytest.mark.parametrize(("name", "value"), [("NCCL_HOSTID", "x"), ("NCCL_CUMEM_ENABLE", "1")])
def test_what_a_profile_of_peers_sets_may_be_replaced_in_a_command(name: str, value: str) -> None:
    command = ["bash", "-c", f"export {name}={value}; train"]
    peers, alone = (
        told(pod(container(command=command), annotations={"gpu.topology/profile": profile}))
        for profile in ("node-peers", "exclusive")
    )
    assert [(found.verdict, found.code) for found in peers.findings if found.condition == name] == [
        ("unknown", "GT429")
    ]
    assert "GT429" not in [found.code for found in alone.findings]


LAUNCHER = container("launcher", gpus=None)
OTHER_PASSES = ({"command": ["mpirun", "-x", "NCCL_P2P_DISABLE=1", "train"]}, "unknown")
OTHER_SETS = ({"env": [{"name": "NCCL_P2P_DISABLE", "value": "1"}]}, "unknown")
OTHER_LEAVES = ({"command": ["mpirun", "-x", "NCCL_DEBUG=INFO", "train"]}, "")


@pytest.mark.parametrize(("fields", "verdict"), [OTHER_PASSES, OTHER_SETS, OTHER_LEAVES])
def test_a_launcher_sets_variables_of_its_workers(fields: dict[str, Any], verdict: str) -> None:
    launcher = decoded(pod({**LAUNCHER, **fields}))
    report = told(pod(), launchers=(launcher,))
    found = [str(found.verdict) for found in report.findings if found.condition == "NCCL_P2P_DISABLE"]
    assert found == ([verdict] if verdict else [])


EXPANDABLE = {"name": "PYTORCH_CUDA_ALLOC_CONF", "value": "max_split_size_mb:64,expandable_segments:True"}
NIXL = ["--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_both"}']
NCCL = ["--kv-transfer-config", '{"kv_connector":"P2pNcclConnector","kv_role":"kv_both"}']


@pytest.mark.parametrize(
    ("args", "env", "verdict"),
    [
        (NIXL, [EXPANDABLE], "fails"),
        (NIXL, [EXPANDABLE | {"name": "PYTORCH_ALLOC_CONF"}], "fails"),
        (NIXL, [EXPANDABLE | {"value": "expandable_segments:False"}], "holds"),
        (NCCL, [EXPANDABLE], "holds"),
        (["serve"], [EXPANDABLE], "holds"),
    ],
)
def test_expandable_segments_cost_transfers_between_processes_their_nvlink(
    args: list[str], env: list[Manifest], verdict: str
) -> None:
    manifest = pod(container(args=args, env=env), annotations={"gpu.topology/profile": "node-peers"})
    report = told(manifest)
    (found,) = (found for found in report.findings if found.condition == env[0]["name"])
    assert (found.verdict, found.stops) == (verdict, False)
    assert found.code == ("GT434" if verdict == "fails" else "")

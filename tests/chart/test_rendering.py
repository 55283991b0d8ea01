"""What Helm makes of the chart, with each of the value files."""

import json
import re
import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.generated import CHART, PROGRAMS, ROOT
from tests.chart.helm import INSTALL, KUBERNETES, NAMESPACE, RELEASE, VALUES, Helm, documents, pick
from tests.chart.rendered import AGENT, PLACES, PLANNER, RELEASE_JOB, WEBHOOK, config_of, notes, pod_template
from tests.cli.command import gpu_topology
from webhook import __version__
from webhook.cluster.api.permissions import Permission
from webhook.decisions.allocation.reader import DIALECTS
from webhook.decisions.configuration import Config, admit_policy, parse_config
from webhook.words import names

pytestmark = pytest.mark.cluster

CASES = ["", *sorted(path.stem for path in VALUES.glob("*.yaml"))]
RESTRICTED_POD = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "fsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
RESTRICTED_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
SCOPES = {
    "": "cluster",
    NAMESPACE: "own-namespace",
    f"{NAMESPACE}-nodes": "topologies",
    "default": "default-namespace",
}
"""Where a Role of that namespace counts, in the words of the lists of permissions."""
POLICIES = {
    "gpu-topology-agent",
    "gpu-topology-gates",
    "gpu-topology-outputs",
    "gpu-topology-pins",
    "gpu-topology-place",
    "gpu-topology-place-lease",
    "gpu-topology-workloads",
    "gpu-topology-workloads-cronjobs",
    "gpu-topology-workloads-jobsets",
}
DIGEST = "sha256:" + "0123456789abcdef" * 4
REMAP_IMAGE = "ghcr.io/gpu-topology-webhook/gpu-topology-remap:0.1.0"


def values(case: str) -> list[str]:
    return [case] if case else []


@pytest.mark.parametrize("case", CASES)
def test_lint_finds_nothing(helm: Helm, case: str) -> None:
    done = helm.run("lint", "--strict", CHART, *(f"--values={VALUES / name}.yaml" for name in values(case)))
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("case", CASES)
def test_every_object_is_ours_by_its_labels_and_there_once(helm: Helm, case: str) -> None:
    objects = helm.objects(*values(case))
    identities = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects]
    assert len(set(identities)) == len(identities)
    for one in objects:
        assert one["metadata"]["labels"]["app.kubernetes.io/name"] == "gpu-topology-webhook"
        assert one["metadata"]["name"].startswith("gpu-topology-")


@pytest.mark.parametrize("case", CASES)
def test_the_image_reads_the_configuration_that_is_rendered(helm: Helm, case: str) -> None:
    config = config_of(helm.objects(*values(case)))
    assert config.server.drain_seconds > 9


def test_install_yaml_is_what_the_chart_renders_to(helm: Helm) -> None:
    assert INSTALL.read_text(encoding="utf-8") == helm.install_manifest(), (
        "deploy/install.yaml is stale; run: make chart"
    )


def test_every_setting_can_be_set_and_arrives_unchanged(helm: Helm, tmp_path: Path) -> None:
    document = yaml.safe_load((ROOT / "deploy" / "config.yaml").read_text(encoding="utf-8"))
    document["remap"] |= {"image": "registry.local/gt:1", "imagePullPolicy": "Never"}
    document["server"] |= {"maxReviewBytes": 12582913, "drainSeconds": 7.5}
    document["cluster"] |= {"topologyNamespace": "gpu-topology-nodes"}
    document["defaults"] = {"shm-size": "16Gi", "env.NCCL_DEBUG": "WARN"}
    placement = {"mode": "on"}
    document.setdefault("placement", {}).pop("mode", None)
    document["claims"].pop("enabled")
    document["claims"]["drivers"][0] |= {"deviceClasses": ["gpu.nvidia.com", "h100.example.com"]}
    claims = {"enabled": True, "schedulers": ["system:kube-scheduler", "gpu/other"]}
    others = {"admission": {"bindings": {"schedulers": ["gpu/scheduler", "system:kube-scheduler"]}}}
    (tmp_path / "values.yaml").write_text(
        yaml.safe_dump({"config": document, "placement": placement, "claims": claims} | others)
    )
    document["placement"] |= placement
    document["claims"] |= {"enabled": True}
    schedulers = ["system:serviceaccount:gpu:scheduler", "system:kube-scheduler", "system:serviceaccount:gpu:other"]
    document["binding"] |= {"schedulers": schedulers}
    assert config_of(documents(helm.template(f"--values={tmp_path / 'values.yaml'}"))) == parse_config(document)


def test_the_remap_container_has_the_small_image_and_the_pull_policy_of_the_chart(helm: Helm) -> None:
    default, other = config_of(helm.objects()), config_of(helm.objects("everything"))
    assert (default.remap.image, default.remap.image_pull_policy) == (REMAP_IMAGE, "IfNotPresent")
    assert other.remap.image == "registry.local/small/remap@sha256:" + "fedcba9876543210" * 4
    assert (other.remap.image_pull_policy, other.remap.runtime_class_name) == ("Always", "nvidia")


def test_chart_and_program_expect_the_remap_image_under_the_same_name(helm: Helm) -> None:
    by_chart = config_of(helm.objects())
    assert admit_policy(by_chart, version="x").remap_image == admit_policy(Config(), version=__version__).remap_image


@pytest.mark.parametrize(
    ("settings", "image"),
    [
        (["image.repository=registry.local:5000/gpu/gt"], "registry.local:5000/gpu/gpu-topology-remap:0.1.0"),
        (["image.repository=gt"], "gpu-topology-remap:0.1.0"),
        (["image.tag=v7"], "ghcr.io/gpu-topology-webhook/gpu-topology-remap:v7"),
        (["image.tag=v7", "remapImage.tag=v8"], "ghcr.io/gpu-topology-webhook/gpu-topology-remap:v8"),
        (["image.repository=a/b", "remapImage.repository=c/d"], "c/d:0.1.0"),
        ([f"image.digest={DIGEST}", "remapImage.tag=v8"], "ghcr.io/gpu-topology-webhook/gpu-topology-remap:v8"),
        ([f"image.digest={DIGEST}", "config.remap.image=a/b:1"], "a/b:1"),
        (["remapImage.repository=c/d", "config.remap.image=a/b:1"], "a/b:1"),
        (["remapImage.repository=c/d", "config.remap.image="], "c/d:0.1.0"),
    ],
)
def test_the_remap_image_is_beside_the_other_unless_it_is_named(helm: Helm, settings: list[str], image: str) -> None:
    options = [f"--set={setting}" for setting in settings]
    assert config_of(helm.objects(options=options)).remap.image == image


def test_a_digest_for_the_webhook_alone_is_refused(helm: Helm) -> None:
    """The image that runs in every injected pod would be pulled by a tag, by an operator who pins what was checked."""
    done = helm.run("template", CHART, f"--kube-version={KUBERNETES}", f"--set=image.digest={DIGEST}")
    assert done.returncode == 1
    assert "remapImage.digest: expected the digest of gpu-topology-remap, because image.digest is set" in done.stderr


def test_another_configuration_rolls_the_pods(helm: Helm) -> None:
    def checksum(*options: str) -> str:
        text: str = pod_template(helm.objects(options=options), WEBHOOK)["metadata"]["annotations"]["checksum/config"]
        return text

    assert checksum() == checksum()
    assert checksum() != checksum("--set=config.binding.readSeconds=1")
    assert checksum() == checksum("--set=webhook.replicas=3")


@pytest.mark.parametrize("case", CASES)
def test_pods_stop_after_the_last_review_and_never_all_at_once(helm: Helm, case: str) -> None:
    objects = helm.objects(*values(case))
    deployment = pick(objects, *WEBHOOK)["spec"]
    timeouts = [webhook["timeoutSeconds"] for webhook in pick(objects, "MutatingWebhookConfiguration")["webhooks"]]
    drain = config_of(objects).server.drain_seconds
    assert drain > max(timeouts)
    assert deployment["template"]["spec"]["terminationGracePeriodSeconds"] > drain + max(timeouts)
    on_nodes = deployment["template"]["spec"].get("hostNetwork", False)
    surge, unavailable = (0, 1) if on_nodes else (1, 0)  # a node's ports are free only when the old pod has left
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": surge, "maxUnavailable": unavailable}
    budget = pick(objects, "PodDisruptionBudget", "gpu-topology-webhook")["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    assert budget["selector"] == deployment["selector"]


@pytest.mark.parametrize("case", CASES)
def test_no_pod_of_ours_may_do_more_than_it_needs(helm: Helm, case: str) -> None:
    objects = helm.objects(*values(case), options=[PLACES])
    makers = [one for one in objects if "template" in one.get("spec", {})]
    assert {(one["kind"], one["metadata"]["name"]) for one in makers} >= {WEBHOOK, PLANNER, RELEASE_JOB}
    for maker in makers:
        spec = maker["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert spec["securityContext"] == RESTRICTED_POD
        assert container["securityContext"] == RESTRICTED_CONTAINER
        assert "limits" not in container["resources"] or "cpu" not in container["resources"]["limits"]
    for account in (one for one in objects if one["kind"] == "ServiceAccount"):
        assert account["automountServiceAccountToken"] is False


def granted(objects: list[dict[str, Any]], account: str) -> set[tuple[str, str, str, str, str]]:
    """What bindings and roles together let a service account do: scope, group, resource, verb, name."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    found = set()
    for binding in (one for one in objects if one["kind"] in {"ClusterRoleBinding", "RoleBinding"}):
        if binding["subjects"] != [subject]:
            continue
        place = binding["metadata"].get("namespace", "")
        roles = [
            one
            for one in objects
            if (one["kind"], one["metadata"]["name"]) == (binding["roleRef"]["kind"], binding["roleRef"]["name"])
            and one["metadata"].get("namespace", "") == place
        ]
        assert len(roles) == 1
        for rule in roles[0]["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for name in rule.get("resourceNames", [""]):
                            found.add((SCOPES[place], group, resource, verb, name))
    return found


def needed(*lists: tuple[Permission, ...]) -> set[tuple[str, str, str, str, str]]:
    return {
        (str(one.scope), one.group, one.resource, verb, name)
        for one in chain.from_iterable(lists)
        for verb in one.verbs
        for name in one.resource_names or ("",)
    }


@pytest.mark.parametrize("case", ["", "cert-manager", "secret", "claims"])
def test_roles_grant_what_the_code_needs_and_nothing_else(helm: Helm, case: str) -> None:
    objects = helm.objects(*values(case))
    more = [PROGRAMS["certificates"]] if case in {"", "claims"} else []
    more += [PROGRAMS["claims"]] if case == "claims" else []
    assert granted(objects, "gpu-topology-webhook") == needed(PROGRAMS["webhook"], *more)
    assert granted(objects, "gpu-topology-agent") == needed(PROGRAMS["agent"])
    assert granted(objects, "gpu-topology-place") == needed(PROGRAMS["planner"])


def test_an_agent_that_taints_devices_has_the_permissions_for_it_and_is_limited_to_its_node(helm: Helm) -> None:
    objects = helm.objects("taints")
    assert granted(objects, "gpu-topology-agent") == needed(PROGRAMS["agent"], PROGRAMS["agent-taints"])
    assert pick(objects, "ValidatingAdmissionPolicy", "gpu-topology-agent-taints")
    assert "--taint-devices" in pod_template(objects, AGENT)["spec"]["containers"][0]["args"]
    free = helm.objects("taints", options=["--set=agent.ownNodeOnly=false"])
    assert "gpu-topology-agent-taints" not in {
        one["metadata"]["name"] for one in free if one["kind"] == "ValidatingAdmissionPolicy"
    }


READERS = {("ClusterRole", "gpu-topology-reader"), ("ClusterRole", "gpu-topology-view")}
"""Roles of people: only an administrator binds them."""


def test_every_role_of_a_program_is_bound_and_every_binding_is_to_one_of_our_accounts(helm: Helm) -> None:
    objects = helm.objects()
    roles = {(one["kind"], one["metadata"]["name"]) for one in objects if one["kind"] in {"Role", "ClusterRole"}}
    bindings = [one for one in objects if one["kind"] in {"RoleBinding", "ClusterRoleBinding"}]
    assert roles >= READERS
    assert roles - READERS == {(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in bindings}
    accounts = {one["metadata"]["name"] for one in objects if one["kind"] == "ServiceAccount"}
    assert {subject["name"] for one in bindings for subject in one["subjects"]} == accounts


@pytest.mark.parametrize("case", CASES)
def test_people_who_look_get_roles_that_only_read_and_never_secrets(helm: Helm, case: str) -> None:
    objects = helm.objects(*values(case))
    for _, name in READERS:
        rules = pick(objects, "ClusterRole", name)["rules"]
        assert {verb for rule in rules for verb in rule["verbs"]} <= {"get", "list", "watch"}
        resources = {resource for rule in rules for resource in rule["resources"]}
        assert "pods" in resources
        assert not resources & {"secrets", "*"}


def test_the_role_view_gets_what_is_in_one_namespace_and_nothing_of_the_cluster(helm: Helm) -> None:
    label = "rbac.authorization.k8s.io/aggregate-to-view"
    objects = [one for one in helm.objects() if one["kind"] == "ClusterRole"]
    assert [one["metadata"]["name"] for one in objects if label in one["metadata"]["labels"]] == ["gpu-topology-view"]
    resources = {rule["resources"][0] for rule in pick(objects, "ClusterRole", "gpu-topology-view")["rules"]}
    of_the_cluster = {
        "nodes",
        "configmaps",
        "leases",
        "mutatingwebhookconfigurations",
        "deviceclasses",
        "resourceslices",
    }
    assert "resourceclaims" in resources
    assert not resources & of_the_cluster


def test_the_webhook_is_registered_as_the_design_says(helm: Helm) -> None:
    configuration = pick(helm.objects(), "MutatingWebhookConfiguration")
    assert configuration["metadata"]["name"] == "gpu-topology-webhook"
    pods, bindings = configuration["webhooks"]
    conditions = [condition["name"] for condition in pods.pop("matchConditions")]
    assert conditions == ["not-opted-out-or-with-outputs", "asks-for-gpus-or-for-us"]
    common = {
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 5,
        "namespaceSelector": {
            "matchLabels": {"gpu.topology/injection": "enabled"},
            "matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "gpu-topology"]},
            ],
        },
    }
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "scope": "Namespaced"}
    service = {"name": "gpu-topology-webhook", "namespace": "gpu-topology", "port": 443}
    assert pods == common | {
        "name": "pods.gpu.topology",
        "clientConfig": {"service": service | {"path": "/mutate/pods"}},
        "rules": [rule | {"resources": ["pods"]}],
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
    }
    assert bindings == common | {
        "name": "bindings.gpu.topology",
        "clientConfig": {"service": service | {"path": "/mutate/bindings"}},
        "rules": [rule | {"resources": ["pods/binding", "bindings"]}],
        "matchConditions": [
            {
                "name": "by-a-scheduler-of-gpus",
                "expression": "request.userInfo.username in [ 'system:serviceaccount:hami-system:hami-scheduler'"
                " , 'system:serviceaccount:kube-system:hami-scheduler'"
                " , 'system:serviceaccount:volcano-system:volcano-scheduler'"
                " , 'system:serviceaccount:koordinator-system:koord-scheduler' ]",
            }
        ],
        "reinvocationPolicy": "Never",
        "sideEffects": "NoneOnDryRun",
    }


def test_the_condition_on_pods_names_every_resource_of_the_configuration(helm: Helm) -> None:
    def expression(*case: str) -> str:
        webhook = pick(helm.objects(*case), "MutatingWebhookConfiguration")["webhooks"][0]
        text: str = webhook["matchConditions"][-1]["expression"]
        return text

    for family in Config().resources:
        for name in (family.count, family.memory, family.memory_percentage, family.cores):
            assert expression().count(f"'{name}'") == 1, name
    assert expression().count(f"startsWith('{names.MIG_RESOURCE_PREFIX}')") == 1
    assert "'nvidia.com/vgpu'" in expression("everything")
    assert "volcano" not in expression("everything")


def test_with_claims_the_webhook_is_asked_about_pods_with_claims_and_about_bindings_of_their_scheduler(
    helm: Helm,
) -> None:
    def conditions(*case: str) -> tuple[str, str]:
        pods, bindings = pick(helm.objects(*case), "MutatingWebhookConfiguration")["webhooks"]
        return pods["matchConditions"][-1]["expression"], bindings["matchConditions"][0]["expression"]

    (pods, bindings), (usual_pods, usual_bindings) = conditions("claims"), conditions()
    for asked in ("object.spec.resourceClaims", "deviceclass.resource.kubernetes.io/"):
        assert asked in pods
        assert asked not in usual_pods
    assert "'system:kube-scheduler'" in bindings
    assert "'system:serviceaccount:hami-system:hami-scheduler'" in bindings
    assert "kube-scheduler" not in usual_bindings


def test_claims_are_enabled_in_one_place(helm: Helm) -> None:
    assert not config_of(helm.objects()).claims.enabled
    config = config_of(helm.objects("claims"))
    assert config.claims.enabled
    assert config.binding.schedulers[-1] == "system:kube-scheduler"
    assert config.claims.drivers[0].device_classes == ("gpu.nvidia.com", "h100.example.com")
    done = helm.run("template", CHART, f"--kube-version={KUBERNETES}", "--set=config.claims.enabled=true")
    assert done.returncode == 1
    assert "config.claims.enabled: claims.enabled sets it" in done.stderr


def test_a_scheduler_of_claims_is_looked_at_only_with_claims(helm: Helm) -> None:
    named = "--set=claims.schedulers={gpu/other}"
    assert "system:serviceaccount:gpu:other" not in config_of(helm.objects(options=[named])).binding.schedulers
    enabled = config_of(helm.objects(options=[named, "--set=claims.enabled=true"])).binding.schedulers
    assert enabled[-1] == "system:serviceaccount:gpu:other"
    assert "system:kube-scheduler" not in enabled


@pytest.mark.parametrize("namespace", ["gpu-topology", "somewhere-else"])
def test_names_follow_the_namespace_of_the_release(helm: Helm, namespace: str) -> None:
    objects = helm.objects(namespace=namespace)
    assert {one["metadata"].get("namespace") for one in objects} == {None, namespace, f"{namespace}-nodes", "default"}
    configuration = pick(objects, "MutatingWebhookConfiguration")
    for webhook in configuration["webhooks"]:
        assert webhook["clientConfig"]["service"]["namespace"] == namespace
        assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", namespace]


def test_the_service_leads_to_the_port_of_the_configuration(helm: Helm) -> None:
    objects = helm.objects("ha")
    service = pick(objects, "Service")["spec"]
    template = pod_template(objects, WEBHOOK)
    (container,) = template["spec"]["containers"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"https": 9443, "ops": 9080}
    assert [(port["port"], port["targetPort"]) for port in service["ports"]] == [(443, "https"), (8080, "ops")]
    assert service["selector"].items() <= template["metadata"]["labels"].items()
    probes = [container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert [(probe["path"], probe["port"]) for probe in probes] == [
        ("/healthz", "ops"),
        ("/healthz", "ops"),
        ("/readyz", "ops"),
    ]


def test_the_webhook_listens_on_its_nodes_if_the_control_plane_reaches_no_pods(helm: Helm) -> None:
    objects = helm.objects("host-network")
    spec = pod_template(objects, WEBHOOK)["spec"]
    (container,) = spec["containers"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    server = config_of(objects).server
    assert (server.port, server.ops_port) == (10443, 10080)
    # A port of the node, so that no scheduler puts two pods on one.
    assert [(port["name"], port["containerPort"], port["hostPort"]) for port in container["ports"]] == [
        ("https", 10443, 10443),
        ("ops", 10080, 10080),
    ]
    service = pick(objects, "Service")["spec"]
    assert [(port["port"], port["targetPort"]) for port in service["ports"]] == [(443, "https"), (8080, "ops")]
    limited = {one["metadata"]["name"] for one in objects if one["kind"] == "NetworkPolicy"}
    assert limited == {"gpu-topology-agent", "gpu-topology-place", "gpu-topology-place-release"}
    assert "hostNetwork" not in pod_template(objects, AGENT)["spec"]


def test_the_webhook_has_no_port_of_a_node_unless_that_is_asked_for(helm: Helm) -> None:
    objects = helm.objects(options=["--set=networkPolicy.enabled=true,webhook.hostNetwork.port=10443"])
    spec = pod_template(objects, WEBHOOK)["spec"]
    assert {"hostNetwork", "dnsPolicy"}.isdisjoint(spec)
    assert [sorted(port) for port in spec["containers"][0]["ports"]] == [["containerPort", "name", "protocol"]] * 2
    assert (config_of(objects).server.port, spec["containers"][0]["ports"][0]["containerPort"]) == (8443, 8443)
    assert "gpu-topology-webhook" in {one["metadata"]["name"] for one in objects if one["kind"] == "NetworkPolicy"}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("config.server.port=8443", "config.server.port: webhook.hostNetwork.port sets it. Leave it out"),
        ("config.server.opsPort=8080", "config.server.opsPort: webhook.hostNetwork.opsPort sets it. Leave it out"),
        (
            "webhook.hostNetwork.opsPort=9443",
            "expected another port than webhook.hostNetwork.port, found 9443 for both",
        ),
    ],
)
def test_ports_of_nodes_are_set_in_one_place_and_differ(helm: Helm, setting: str, said: str) -> None:
    given = f"--set=webhook.hostNetwork.enabled=true,{setting}"
    done = helm.run("template", "x", CHART, f"--namespace={NAMESPACE}", given)
    assert done.returncode != 0
    assert said in done.stderr


def test_managed_certificates_need_no_volume_and_leave_the_bundle_alone(helm: Helm) -> None:
    objects = helm.objects()
    spec = pod_template(objects, WEBHOOK)["spec"]
    assert spec["containers"][0]["args"] == [
        "serve", "--config", "/etc/gpu-topology/config.yaml", "--state", "kubernetes"
    ]  # fmt: skip
    assert {volume["name"] for volume in spec["volumes"]} == {"config"}
    configuration = pick(objects, "MutatingWebhookConfiguration")
    assert all("caBundle" not in webhook["clientConfig"] for webhook in configuration["webhooks"])


def test_a_secret_of_the_users_is_mounted_and_its_authority_registered(helm: Helm) -> None:
    objects = helm.objects("secret")
    spec = pod_template(objects, WEBHOOK)["spec"]
    assert spec["containers"][0]["args"][-2:] == ["--tls", "/etc/gpu-topology-tls"]
    (volume,) = (volume for volume in spec["volumes"] if volume["name"] == "tls")
    assert volume["secret"] == {"secretName": "my-certificate", "defaultMode": 0o440}
    for webhook in pick(objects, "MutatingWebhookConfiguration")["webhooks"]:
        assert webhook["clientConfig"]["caBundle"] == "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="


def test_cert_manager_issues_for_the_service_and_injects_the_authority(helm: Helm) -> None:
    objects = helm.objects("cert-manager")
    serving = pick(objects, "Certificate", "gpu-topology-webhook")["spec"]
    authority = pick(objects, "Certificate", "gpu-topology-webhook-ca")["spec"]
    configuration = pick(objects, "MutatingWebhookConfiguration")
    assert configuration["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": "gpu-topology/gpu-topology-webhook"
    }
    assert serving["dnsNames"] == ["gpu-topology-webhook.gpu-topology.svc"]
    assert serving["issuerRef"] == {"name": "gpu-topology-webhook", "kind": "Issuer"}
    assert pick(objects, "Issuer", "gpu-topology-webhook")["spec"] == {"ca": {"secretName": authority["secretName"]}}
    assert (authority["isCA"], authority["issuerRef"]["name"]) == (True, "gpu-topology-webhook-self-signed")
    (volume,) = (one for one in pod_template(objects, WEBHOOK)["spec"]["volumes"] if one["name"] == "tls")
    assert volume["secret"]["secretName"] == serving["secretName"]


def test_an_issuer_of_the_cluster_comes_in_place_of_our_own(helm: Helm) -> None:
    objects = helm.objects("corporate-issuer")
    assert [one["kind"] for one in objects if one["apiVersion"] == "cert-manager.io/v1"] == ["Certificate"]
    spec = pick(objects, "Certificate")["spec"]
    assert spec["issuerRef"] == {"name": "corporate", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    assert (spec["duration"], spec["renewBefore"]) == ("720h", "240h")


def test_the_agent_sees_every_gpu_and_no_other_webhook_hides_them(helm: Helm) -> None:
    objects = helm.objects()
    template = pod_template(objects, AGENT)
    (container,) = template["spec"]["containers"]
    environment = {
        one["name"]: one.get("value") or one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"]
    }
    assert environment == {
        "NODE_NAME": "spec.nodeName",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "utility",
    }
    assert template["metadata"]["labels"]["hami.io/webhook"] == "ignore"
    assert template["spec"]["nodeSelector"] == {"gpu": "on"}
    assert template["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert container["args"] == ["agent", "--namespace=gpu-topology-nodes", "--interval=60", "--traffic-interval=15"]
    assert "volumes" not in template["spec"]


def test_an_agent_that_measures_has_cuda_and_memory_for_it(helm: Helm) -> None:
    options = ["--set=agent.verifyAtStart=true", "--set=agent.verifyMemory=6Gi"]
    (container,) = pod_template(helm.objects(options=options), AGENT)["spec"]["containers"]
    assert container["args"][-1] == "--verify-at-start"
    assert {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"} in container["env"]
    assert container["resources"] == {"requests": {"cpu": "20m", "memory": "96Mi"}, "limits": {"memory": "6Gi"}}
    (other,) = pod_template(helm.objects(), AGENT)["spec"]["containers"]
    assert other["resources"]["limits"] == {"memory": "256Mi"}


def test_what_the_agent_may_be_opted_in(helm: Helm) -> None:
    template = pod_template(helm.objects("everything"), AGENT)
    spec = template["spec"]
    assert spec["containers"][0]["args"] == [
        "agent", "--namespace=gpu-topology-nodes", "--interval=30", "--traffic-interval=15", "--cordon", "--root=/host"
    ]  # fmt: skip
    assert spec["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert (spec["runtimeClassName"], spec["priorityClassName"]) == ("nvidia", "system-node-critical")
    mounts = {mount["mountPath"]: mount.get("readOnly") for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts == {"/host/sys": True, "/host/proc/cpuinfo": True, "/var/run/nvidia-container-devices/all": None}


def test_files_that_the_configuration_names_can_be_mounted(helm: Helm) -> None:
    spec = pod_template(helm.objects("everything"), WEBHOOK)["spec"]
    assert {volume["name"] for volume in spec["volumes"]} == {"config", "authority"}
    mounts = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts == {"config": "/etc/gpu-topology", "authority": "/etc/authority"}


def test_the_authority_of_clients_is_mounted_where_the_server_reads_it(helm: Helm) -> None:
    for source in ("configMap", "secret"):
        given = f"admission.clientCertificate.{source}=clients,admission.clientCertificate.key=bundle.pem"
        objects = helm.objects(options=["--set=admission.clientCertificate.enabled=true", f"--set={given}"])
        assert config_of(objects).server.client_authority == "/etc/gpu-topology-clients/bundle.pem"
        spec = pod_template(objects, WEBHOOK)["spec"]
        (mount,) = (one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "clients")
        assert mount == {"name": "clients", "mountPath": "/etc/gpu-topology-clients", "readOnly": True}
        (volume,) = (one for one in spec["volumes"] if one["name"] == "clients")
        items = [{"key": "bundle.pem", "path": "bundle.pem"}]
        name = {"name": "clients"} if source == "configMap" else {"secretName": "clients"}
        assert volume[source] == name | {"items": items}
    assert config_of(helm.objects()).server.client_authority == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("secret=a,admission.clientCertificate.configMap=b", "found both or none"),
        ("secret=", "found both or none"),
        ("secret=a,config.server.clientAuthority=/x", "admission.clientCertificate sets it. Leave it out"),
    ],
)
def test_an_authority_of_clients_comes_from_one_place(helm: Helm, options: str, said: str) -> None:
    given = f"--set=admission.clientCertificate.enabled=true,admission.clientCertificate.{options}"
    done = helm.run("template", "x", CHART, f"--namespace={NAMESPACE}", given)
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.parametrize("case", ["", "everything", "secret"])
def test_the_programs_know_their_arguments(helm: Helm, case: str) -> None:
    objects = helm.objects(*values(case), options=[PLACES])
    for maker in (WEBHOOK, PLANNER, RELEASE_JOB, AGENT):
        (container,) = pod_template(objects, maker)["spec"]["containers"]
        done = gpu_topology(*container["args"], "--help")
        assert done.code == 0, done.err
        unknown = gpu_topology(*container["args"], "--colour", "--help")
        assert (unknown.code, "--colour" in unknown.err) == (2, True)


def test_agents_publish_where_the_webhook_looks_and_nothing_else_is(helm: Helm) -> None:
    for options, expected in (((), "gpu-topology-nodes"), (("--set=agent.namespace=gpus",), "gpus")):
        objects = helm.objects(options=options)
        assert config_of(objects).cluster.topology_namespace == expected
        assert f"--namespace={expected}" in pod_template(objects, AGENT)["spec"]["containers"][0]["args"]
        there = {one["kind"] for one in objects if one["metadata"].get("namespace") == expected}
        assert there == {"Role", "RoleBinding", "ResourceQuota"}
        namespace = pick(objects, "Namespace", expected)["metadata"]["labels"]
        assert namespace["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("agent.namespace=gpu-topology", "agent.namespace: expected another namespace than that of the release"),
        ("config.cluster.topologyNamespace=x", "config.cluster.topologyNamespace: expected gpu-topology-nodes"),
    ],
)
def test_agents_never_write_into_the_namespace_of_the_release(helm: Helm, option: str, said: str) -> None:
    done = helm.run("template", "x", CHART, f"--namespace={NAMESPACE}", f"--set={option}")
    assert done.returncode != 0
    assert said in done.stderr


def test_without_an_agent_nothing_of_it_is_left(helm: Helm) -> None:
    objects = helm.objects("minimal")
    assert {one["metadata"]["labels"]["app.kubernetes.io/component"] for one in objects} == {
        "webhook",
        "planner",
        "release",
        "readers",
    }


@pytest.mark.parametrize(
    ("version", "there"), [("1.28.0", False), ("1.29.7", False), ("1.30.0", True), ("1.36.1", True)]
)
def test_the_policies_are_there_where_the_api_server_has_what_they_need(
    helm: Helm, version: str, *, there: bool
) -> None:
    objects = helm.objects(options=[f"--kube-version={version}"])
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        found = {one["metadata"]["name"] for one in objects if one["kind"] == kind}
        assert found == (POLICIES if there else set())


@pytest.mark.parametrize("protected", [True, False])
def test_the_notes_say_where_annotations_are_not_protected(helm: Helm, *, protected: bool) -> None:
    setting = f"--set=admission.protectAnnotations={str(protected).lower()}"
    done = helm.run("install", RELEASE, CHART, "--dry-run=client", f"--namespace={NAMESPACE}", setting)
    assert done.returncode == 0, done.stderr
    _, _, notes = done.stdout.partition("NOTES:")
    assert ("Whoever may patch pods can change" in notes) is not protected


def test_the_annotations_are_protected_unless_that_is_switched_off(helm: Helm) -> None:
    objects = helm.objects(options=["--set=admission.protectAnnotations=false"])
    names_of_policies = [one["metadata"]["name"] for one in objects if one["kind"] == "ValidatingAdmissionPolicy"]
    assert set(names_of_policies) == POLICIES - {"gpu-topology-outputs"}


def test_the_policy_knows_every_annotation_of_ours_and_of_the_schedulers(helm: Helm) -> None:
    objects = helm.objects()
    spec = pick(objects, "ValidatingAdmissionPolicy", "gpu-topology-outputs")["spec"]
    by_name = {variable["name"]: variable["expression"] for variable in spec["variables"]}
    quoted = {name: set(re.findall(r"'([^']+)'", text)) for name, text in by_name.items()}
    outputs = {*names.OUTPUTS, *names.OUTPUT_PREFIXES, names.NCCL_P2P_LEVEL}
    assert quoted["outputs"] == quoted["removedOutputs"] == outputs | {names.PREFIX}
    read = {key for dialect in DIALECTS for key in (dialect.key, dialect.node_key) if key} - outputs
    assert quoted["allocations"] >= read | {names.HAMI_DEVICES_TO_ALLOCATE, names.HAMI_MIG_ALLOCATIONS}
    conditions = pick(objects, "MutatingWebhookConfiguration")["webhooks"][0]["matchConditions"]
    assert set(re.findall(r"'(gpu.topology/[^']+)'", conditions[0]["expression"])) >= outputs


def test_policy_and_registration_are_about_the_same_namespaces_and_schedulers(helm: Helm) -> None:
    objects = helm.objects("everything")
    spec = pick(objects, "ValidatingAdmissionPolicy", "gpu-topology-outputs")["spec"]
    pods, bindings = pick(objects, "MutatingWebhookConfiguration")["webhooks"]
    assert spec["matchConstraints"]["namespaceSelector"] == pods["namespaceSelector"]
    answered = next(one["expression"] for one in spec["variables"] if one["name"] == "isAnsweredBinding")
    assert answered.endswith(bindings["matchConditions"][0]["expression"])


def test_a_scheduler_is_named_by_namespace_and_account_or_by_any_user_name(helm: Helm) -> None:
    accounts = "--set=admission.bindings.schedulers={gpu-system/my-hami-scheduler,system:kube-scheduler}"
    objects = helm.objects(options=[accounts])
    expression = pick(objects, "MutatingWebhookConfiguration")["webhooks"][1]["matchConditions"][0]["expression"]
    assert "'system:serviceaccount:gpu-system:my-hami-scheduler' , 'system:kube-scheduler' ]" in expression
    settings = yaml.safe_load(pick(objects, "Secret", "gpu-topology-webhook")["stringData"]["config.yaml"])
    assert settings["binding"]["schedulers"] == [
        "system:serviceaccount:gpu-system:my-hami-scheduler",
        "system:kube-scheduler",
    ]


def test_the_schedulers_have_one_place(helm: Helm) -> None:
    done = helm.run("template", CHART, "--set=config.binding.schedulers={me}")
    assert done.returncode == 1
    assert "config.binding.schedulers: admission.bindings.schedulers sets it. Leave it out" in done.stderr


def test_a_kubernetes_without_match_conditions_is_refused(helm: Helm) -> None:
    done = helm.run("template", CHART, "--kube-version=1.27.9")
    assert done.returncode == 1
    assert "chart requires kubeVersion: >=1.28.0-0" in done.stderr


def test_reviews_may_come_from_anywhere_and_metrics_only_from_where_they_may(helm: Helm) -> None:
    objects = helm.objects("ha")
    policy = pick(objects, "NetworkPolicy", "gpu-topology-webhook")["spec"]
    reviews, metrics = policy["ingress"]
    assert reviews == {"ports": [{"protocol": "TCP", "port": "https"}]}
    assert metrics == {
        "ports": [{"protocol": "TCP", "port": "ops"}],
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
    }
    assert policy["egress"][0] == {"ports": [{"protocol": "TCP", "port": 8443}]}
    agent = pick(objects, "NetworkPolicy", "gpu-topology-agent")["spec"]
    assert agent["ingress"] == [metrics]


def test_nothing_of_prometheus_or_grafana_is_there_unless_it_is_asked_for(helm: Helm) -> None:
    objects = helm.objects()
    assert {one["apiVersion"] for one in objects if "coreos" in one["apiVersion"]} == set()
    assert [one["metadata"]["name"] for one in objects if one["kind"] == "ConfigMap"] == []


def test_prometheus_finds_both_programs_by_named_ports(helm: Helm) -> None:
    objects = helm.objects("everything")
    service, (ops,) = (
        pick(objects, "Service"),
        (port for port in pod_template(objects, AGENT)["spec"]["containers"][0]["ports"]),
    )
    webhook, agent = pick(objects, "ServiceMonitor"), pick(objects, "PodMonitor", "gpu-topology-agent")
    (endpoint,), (pod_endpoint,) = webhook["spec"]["endpoints"], agent["spec"]["podMetricsEndpoints"]
    assert endpoint == {"port": "metrics", "interval": "15s"}
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert (pod_endpoint["port"], pod_endpoint["interval"]) == (ops["name"], "15s")
    assert webhook["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert webhook["metadata"]["labels"]["release"] == agent["metadata"]["labels"]["release"] == "prometheus"


def test_rules_and_dashboard_are_those_of_their_files(helm: Helm, tmp_path: Path) -> None:
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    rule = "{alert: A, expr: up == 0, annotations: {summary: '{{ $labels.pod }}'}}"
    alert = f"# Rules.\ngroups:\n- name: gpu-topology\n  rules:\n  - {rule}\n"
    (chart / "files" / "rules.yaml").write_text(alert)
    (chart / "files" / "dashboard.json").write_text('{\n  "title": "{{ pod }}"\n}\n')
    done = helm.run("template", chart, f"--kube-version={KUBERNETES}", f"--values={VALUES / 'everything.yaml'}")
    objects = documents(done.stdout)
    rules = pick(objects, "PrometheusRule")
    assert rules["spec"] == yaml.safe_load(alert)
    assert rules["metadata"]["labels"]["release"] == "prometheus"
    dashboard = pick(objects, "ConfigMap", "gpu-topology-webhook-dashboard")
    assert dashboard["data"] == {"gpu-topology-webhook.json": '{\n  "title": "{{ pod }}"\n}'}
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard["metadata"]["annotations"] == {"folder": "GPU"}


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("webhook.replica=3", "at '/webhook': additional properties 'replica' not allowed"),
        ("webhok.replicas=3", "at '': additional properties 'webhok' not allowed"),
        ("webhook.replicas=0", "at '/webhook/replicas': minimum: got 0, want 1"),
        ("webhook.replicas=two", "at '/webhook/replicas': got string, want integer"),
        (
            "admission.pods.failurePolicy=fail",
            "at '/admission/pods/failurePolicy': value must be one of 'Fail', 'Ignore'",
        ),
        ("admission.bindings.timeoutSeconds=31", "at '/admission/bindings/timeoutSeconds': maximum: got 31, want 30"),
        (
            "admission.bindings.schedulers={it's}",
            "at '/admission/bindings/schedulers/0': 'it\\'s' does not match pattern",
        ),
        ("claims.enabled=yes", "at '/claims/enabled': got string, want boolean"),
        ("webhook.hostNetwork=true", "at '/webhook/hostNetwork': got boolean, want object"),
        ("webhook.hostNetwork.port=443", "at '/webhook/hostNetwork/port': minimum: got 443, want 1,024"),
        ("certificates.source=letsencrypt", "value must be one of 'managed', 'cert-manager', 'secret'"),
        ("certificates.source=secret", "at '/certificates/secret/caBundle': minLength: got 0, want 1"),
        ("image.digest=sha256:1", "at '/image/digest'"),
        ("remapImage.digest=sha256:1", "at '/remapImage/digest'"),
        ("config.sever.port=1", "at '/config': additional properties 'sever' not allowed"),
        ("config.server.port=https", "at '/config/server/port': got string, want integer"),
        ("config.cluster.hamiVersion=2", "at '/config/cluster/hamiVersion': got number, want string"),
        ("config.remap.imagePullPolicy=Sometimes", "at '/config/remap/imagePullPolicy': value must be one of"),
        ("agent.interval=0", "at '/agent/interval': minimum: got 0, want 1"),
        ("agent.maxUnavailable=all", "at '/agent/maxUnavailable'"),
        ("networkPolicy.apiServerPorts={https}", "at '/networkPolicy/apiServerPorts/0': got string, want integer"),
    ],
)
def test_bad_values_are_refused_with_their_place(helm: Helm, setting: str, complaint: str) -> None:
    done = helm.run("template", CHART, f"--kube-version={KUBERNETES}", "--set", setting)
    assert done.returncode == 1
    assert complaint in done.stderr


_HOSTILE = (
    "x\ninjected: true",
    'x"',
    "x'",
    "x: y",
    "x #",
    "{x}",
    "[x]",
    "&x",
    "*x",
    "!x",
    "|",
    "x\t",
    "x\n",
    "é",
    "{{ .Release.Name }}",
    "x\u2028y",
)


@pytest.mark.parametrize(
    "place",
    [
        "image.repository",
        "image.tag",
        "image.digest",
        "remapImage.repository",
        "remapImage.tag",
        "remapImage.digest",
        "global.imageRegistry",
    ],
)
def test_no_part_of_an_image_can_write_into_a_manifest(helm: Helm, tmp_path: Path, place: str) -> None:
    section, name = place.split(".")
    for text in _HOSTILE:
        (tmp_path / "values.yaml").write_text(json.dumps({section: {name: text}}))
        done = helm.run("template", CHART, f"--kube-version={KUBERNETES}", f"--values={tmp_path / 'values.yaml'}")
        assert done.returncode == 1, text
        assert f"at '/{section}/{name}'" in done.stderr, text


@pytest.mark.parametrize(
    "repository",
    [
        "gpu-topology-webhook",
        "localhost/gpu-topology-webhook",
        "registry.example.com:5000/team_a/deep__er/gpu.topology--webhook",
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com/x",
        "Registry.Example.COM/x",
        "10.0.0.1:5000/x",
    ],
)
def test_an_image_of_any_registry_and_folder_is_taken(helm: Helm, repository: str) -> None:
    for tag in ("1.2.3-rc.1", "_x", "V1_0.x-y", "a" * 128):
        values = {"repository": repository, "tag": tag}
        settings = [
            f"--set-string={section}.{key}={text}"
            for section in ("image", "remapImage")
            for key, text in values.items()
        ]
        webhook = pick(helm.objects(options=settings), "Deployment", "gpu-topology-webhook")
        assert webhook["spec"]["template"]["spec"]["containers"][0]["image"] == f"{repository}:{tag}"


@pytest.mark.parametrize("registry", ["mirror.example.com", "mirror:5000/", "mirror.example.com/team/proxy"])
def test_a_registry_of_all_charts_may_have_a_port_and_a_folder(helm: Helm, registry: str) -> None:
    options = (f"--set=global.imageRegistry={registry}", "--set=image.repository=a/b")
    webhook = pick(helm.objects(options=options), "Deployment", "gpu-topology-webhook")
    image = webhook["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image.startswith(f"{registry.removesuffix('/')}/a/b:")


def test_a_name_that_the_roles_are_not_for_is_refused(helm: Helm) -> None:
    setting = "config.certificates.secret"
    done = helm.run(
        "template", CHART, f"--kube-version={KUBERNETES}", "--skip-schema-validation", "--set", f"{setting}=mine"
    )
    assert done.returncode == 1
    assert f"{setting}: expected gpu-topology-webhook-tls, the name that the chart uses, found mine" in done.stderr


def test_the_notes_tell_the_next_steps(helm: Helm) -> None:
    said = notes(helm)
    assert said.index("namespace NAMESPACE --observe --apply") < said.index("gpu-topology analyze -A\n")
    for command in (("namespace", "x", "--observe", "--apply"), ("analyze", "-A")):
        assert gpu_topology(*command, "--help").code == 0
    assert "kubectl -n gpu-topology rollout status deployment/gpu-topology-webhook" in said
    assert "system:serviceaccount:hami-system:hami-scheduler" in said


def test_the_notes_say_where_the_command_line_comes_from(helm: Helm) -> None:
    said = notes(helm, "--set=image.repository=registry.local/gt")
    assert "gpu-topology explain NAMESPACE/POD" in said
    assert "docker run --rm -i registry.local/gt:0.1.0 explain -f -" in said
    assert "pipx install ." in said


def test_the_notes_say_that_no_image_is_published_unless_another_one_is_named(helm: Helm) -> None:
    assert "NO IMAGE IS PUBLISHED" in notes(helm)
    assert "PUBLISHED" not in notes(helm, "--set=image.repository=registry.local/gt")


def test_the_notes_name_the_image_that_the_gpu_nodes_pull(helm: Helm) -> None:
    said = notes(helm, "--set=image.repository=registry.local/gt")
    assert "nodes can pull registry.local/gpu-topology-remap:0.1.0 (value remapImage)" in said


def test_the_notes_say_what_ports_of_nodes_need(helm: Helm) -> None:
    said = notes(helm, "--set=webhook.hostNetwork.enabled=true")
    assert "on the ports 9443 (reviews) and 9080 (probes and metrics)" in said
    assert "pod-security.kubernetes.io/enforce=privileged" in said
    assert "2 pods need 2 nodes" in said
    assert "privileged" not in notes(helm)


def test_what_can_never_be_changed_is_what_it_was_in_the_first_release(helm: Helm) -> None:
    objects = helm.objects("release-0.1.0")
    selectors = {maker: pick(objects, *maker)["spec"]["selector"]["matchLabels"] for maker in (WEBHOOK, AGENT)}
    ours = {"app.kubernetes.io/name": "gpu-topology-webhook"}
    assert selectors == {
        WEBHOOK: ours | {"app.kubernetes.io/component": "webhook"},
        AGENT: ours | {"app.kubernetes.io/component": "agent"},
    }

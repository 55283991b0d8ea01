"""What Helm makes of the planner: which parts of it there are in which mode, and what ends with the release."""

import re
from typing import Any

import pytest

from tests.chart.generated import CHART
from tests.chart.helm import KUBERNETES, NAMESPACE, Helm, pick
from tests.chart.rendered import PLACES, PLANNER, RELEASE_JOB, WEBHOOK, config_of, notes, pod_template
from webhook.words import names
from webhook.words.choices import Placement, PlacementMode

pytestmark = pytest.mark.cluster

HELPERS = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")


def mode(name: str) -> str:
    return f"--set=placement.mode={name}"


def of_the_planner(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Kind and name of what carries its labels."""
    components = {"planner", "release"}
    return {
        (one["kind"], one["metadata"]["name"])
        for one in objects
        if one["metadata"]["labels"]["app.kubernetes.io/component"] in components
    }


def test_pods_that_ask_for_something_wait_unless_it_is_told_otherwise(helm: Helm) -> None:
    objects = helm.objects()
    assert config_of(objects).placement.mode is PlacementMode.ON_REQUEST
    assert {PLANNER, RELEASE_JOB} <= of_the_planner(objects)


def test_told_so_the_planner_only_observes(helm: Helm) -> None:
    objects = helm.objects(options=[mode("observe")])
    assert config_of(objects).placement.mode is PlacementMode.OBSERVE
    assert PLANNER in of_the_planner(objects)
    assert RELEASE_JOB not in of_the_planner(objects)


@pytest.mark.parametrize("name", ["off", "false"])
def test_switched_off_nothing_of_it_is_left(helm: Helm, name: str) -> None:
    objects = helm.objects("everything", options=[mode(name)])
    assert of_the_planner(objects) == set()
    assert config_of(objects).placement.mode is PlacementMode.OFF


@pytest.mark.parametrize("name", ["on", "true"])
def test_switched_on_it_has_an_end_too(helm: Helm, name: str) -> None:
    objects = helm.objects(options=[mode(name)])
    assert config_of(objects).placement.mode is PlacementMode.ON
    assert {PLANNER, RELEASE_JOB} <= of_the_planner(objects)


def test_the_mode_has_one_place_and_the_numbers_another(helm: Helm) -> None:
    options = ["--set=config.placement.pinSeconds=90,config.placement.inFlight=4", mode("on")]
    placement = config_of(helm.objects(options=options)).placement
    assert (placement.mode, placement.pin_seconds, placement.in_flight) == (PlacementMode.ON, 90, 4)
    done = helm.run("template", CHART, f"--kube-version={KUBERNETES}", "--set=config.placement.mode=on")
    assert done.returncode == 1
    assert "config.placement.mode: placement.mode sets it. Leave it out" in done.stderr


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        (
            "placement.mode=always",
            "at '/placement/mode': value must be one of '', 'off', 'observe', 'on-request', 'on', true, false",
        ),
        ("placement.replica=3", "at '/placement': additional properties 'replica' not allowed"),
        ("placement.pinSeconds=3", "at '/placement': additional properties 'pinSeconds' not allowed"),
        ("placement.replicas=0", "at '/placement/replicas': minimum: got 0, want 1"),
        ("config.placement.releaseSeconds=29", "at '/config/placement/releaseSeconds': minimum: got 29, want 30"),
        ("config.placement.pinSeconds=soon", "at '/config/placement/pinSeconds': got string, want integer"),
    ],
)
def test_bad_values_are_refused_with_their_place(helm: Helm, setting: str, complaint: str) -> None:
    done = helm.run("template", CHART, f"--kube-version={KUBERNETES}", f"--set={setting}")
    assert done.returncode == 1
    assert complaint in done.stderr


def test_before_1_30_it_only_observes_and_no_account_may_patch_pods(helm: Helm) -> None:
    old = "--kube-version=1.29.4"
    done = helm.run("template", CHART, old, mode("on"))
    assert done.returncode == 1
    assert "placement.mode: expected off or observe, because the others need Kubernetes 1.30" in done.stderr
    assert "found Kubernetes v1.29.4" in done.stderr
    assert "Upgrade the cluster, or leave the mode empty" in done.stderr
    objects = helm.objects(options=[old])
    assert config_of(objects).placement.mode is PlacementMode.OBSERVE
    assert PLANNER in of_the_planner(objects)
    rules = {one["metadata"]["name"]: one["rules"] for one in objects if one["kind"] == "ClusterRole"}
    patched = {
        (name, resource)
        for name, of_role in rules.items()
        for rule in of_role
        for resource in rule["resources"]
        if "patch" in rule["verbs"]
    }
    assert not {resource for _, resource in patched if resource.startswith("pods")}
    assert ("gpu-topology-agent", "nodes") in patched
    assert {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]} in rules["gpu-topology-place"]
    assert {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]} in rules["gpu-topology-webhook"]


@pytest.mark.parametrize("name", [*PlacementMode])
def test_the_webhook_may_let_pods_go_in_every_mode_within_a_policy(helm: Helm, name: str) -> None:
    objects = helm.objects(options=[mode(name)])
    rules = pick(objects, "ClusterRole", "gpu-topology-webhook")["rules"]
    assert {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch"]} in rules
    assert pick(objects, "ValidatingAdmissionPolicyBinding", "gpu-topology-gates")["spec"]["validationActions"] == [
        "Deny"
    ]


def test_every_account_that_may_patch_pods_is_bound_by_a_policy(helm: Helm) -> None:
    objects = helm.objects(options=[PLACES])
    for role in (one for one in objects if one["kind"] == "ClusterRole"):
        if any("pods" in rule["resources"] and "patch" in rule["verbs"] for rule in role["rules"]):
            account = f"'system:serviceaccount:{NAMESPACE}:{role['metadata']['name']}'"
            bound = [
                one["metadata"]["name"]
                for one in objects
                if one["kind"] == "ValidatingAdmissionPolicy"
                and any(
                    account in condition["expression"] and not condition["expression"].startswith("!")
                    for condition in one["spec"]["matchConditions"]
                )
                and "pods" in one["spec"]["matchConstraints"]["resourceRules"][0]["resources"]
                and "namespaceSelector" not in one["spec"]["matchConstraints"]
            ]
            assert len(bound) == 1, account


def test_the_program_gets_its_configuration_and_knows_its_pod(helm: Helm) -> None:
    template = pod_template(helm.objects(options=[PLACES]), PLANNER)
    (container,) = template["spec"]["containers"]
    assert container["args"] == [
        "place", "--config=/etc/gpu-topology/config.yaml", "--topology-namespace=gpu-topology-nodes"
    ]  # fmt: skip
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"]}
    assert fields == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    assert container["ports"] == [{"name": "ops", "containerPort": 8080, "protocol": "TCP"}]
    assert template["spec"]["volumes"] == [{"name": "config", "secret": {"secretName": "gpu-topology-webhook"}}]
    assert template["metadata"]["labels"]["hami.io/webhook"] == "ignore"


def test_its_pods_are_spread_and_never_all_gone(helm: Helm) -> None:
    objects = helm.objects()
    deployment = pick(objects, *PLANNER)["spec"]
    assert deployment["replicas"] == 2
    spread = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert [one["labelSelector"] for one in spread] == [deployment["selector"]] * 2
    budget = pick(objects, "PodDisruptionBudget", "gpu-topology-place")["spec"]
    assert (budget["maxUnavailable"], budget["selector"]) == (1, deployment["selector"])
    assert deployment["selector"] != pick(objects, *WEBHOOK)["spec"]["selector"]


def test_where_it_runs_can_be_chosen_and_the_end_runs_there_too(helm: Helm) -> None:
    chosen = (
        "priorityClassName=high,placement.nodeSelector.infra=yes,placement.podLabels.team=gpu,placement.podAnnotations.a=b,"
        "placement.tolerations[0].operator=Exists,placement.affinity.podAffinity.x=y,placement.resources.limits.memory=1Gi"
    )
    objects = helm.objects(options=[PLACES, f"--set=placement.{chosen}", "--set=imagePullSecrets[0].name=registry"])
    for maker in (PLANNER, RELEASE_JOB):
        template = pod_template(objects, maker)
        spec = template["spec"]
        assert (spec["priorityClassName"], spec["nodeSelector"]) == ("high", {"infra": "yes"})
        assert (spec["tolerations"], spec["affinity"]) == ([{"operator": "Exists"}], {"podAffinity": {"x": "y"}})
        assert spec["imagePullSecrets"] == [{"name": "registry"}]
        assert spec["containers"][0]["resources"]["limits"] == {"memory": "1Gi"}
        assert template["metadata"]["labels"]["team"] == "gpu"
        assert template["metadata"]["annotations"]["a"] == "b"


def test_another_configuration_rolls_its_pods(helm: Helm) -> None:
    def checksum(*options: str) -> str:
        template = pod_template(helm.objects(options=options), PLANNER)
        text: str = template["metadata"]["annotations"]["checksum/config"]
        return text

    assert checksum() != checksum("--set=config.placement.pinSeconds=61")
    assert checksum() == checksum("--set=placement.replicas=3")


def test_waiting_pods_are_let_go_before_the_release_is_removed(helm: Helm) -> None:
    job = pick(helm.objects(options=[PLACES]), *RELEASE_JOB)
    assert job["metadata"]["annotations"] == {
        "helm.sh/hook": "pre-delete",
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }
    spec = job["spec"]["template"]["spec"]
    assert spec["containers"][0]["args"] == ["place", "release", "--all"]
    assert (spec["restartPolicy"], spec["serviceAccountName"]) == ("Never", "gpu-topology-place")
    # Helm gives up after 5 minutes unless it is told otherwise, and would not say why.
    assert 0 < job["spec"]["activeDeadlineSeconds"] < 300


def test_its_pods_are_none_of_the_planner(helm: Helm) -> None:
    """A budget of the planner could not be reckoned with them, and its monitor would look for their metrics."""
    objects = helm.objects(options=[PLACES])
    selector = pick(objects, *PLANNER)["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= pod_template(objects, RELEASE_JOB)["metadata"]["labels"].items()


def test_without_helm_nothing_lets_pods_go_at_the_installation(helm: Helm) -> None:
    assert "helm.sh/hook" not in helm.install_manifest()


def test_the_network_leads_to_its_metrics_and_to_the_api_server_alone(helm: Helm) -> None:
    objects = helm.objects("ha", options=[PLACES])
    of_agents = {name: pick(objects, "NetworkPolicy", name)["spec"] for name in ("gpu-topology-webhook", PLANNER[1])}
    webhook, planner = of_agents.values()
    assert planner["ingress"] == webhook["ingress"][1:]
    assert planner["egress"] == webhook["egress"]
    release = pick(objects, "NetworkPolicy", "gpu-topology-place-release")["spec"]
    # Without rules nothing may come in. An empty list would be written anew by each apply: the API server drops it.
    assert "ingress" not in release
    assert (release["policyTypes"], release["egress"]) == (["Ingress", "Egress"], webhook["egress"])
    for spec, maker in ((planner, PLANNER), (release, RELEASE_JOB)):
        assert spec["podSelector"]["matchLabels"].items() <= pod_template(objects, maker)["metadata"]["labels"].items()


def test_prometheus_finds_it(helm: Helm) -> None:
    objects = helm.objects("everything")
    monitor = pick(objects, "PodMonitor", "gpu-topology-place")["spec"]
    assert monitor["selector"] == pick(objects, *PLANNER)["spec"]["selector"]
    assert monitor["podMetricsEndpoints"] == [{"port": "ops", "interval": "15s"}]


def test_the_policies_name_what_the_code_names(helm: Helm) -> None:
    objects = helm.objects(options=[PLACES])

    def quoted(policy: str) -> set[str]:
        spec = pick(objects, "ValidatingAdmissionPolicy", policy)["spec"]
        parts = [one["expression"] for one in (*spec.get("variables", ()), *spec["validations"])]
        return set(re.findall(r"'([^']*)'", " ".join(parts))) - {""}

    places = {"kube-system", NAMESPACE}
    gate = {names.PLACE_GATE, names.PLACEMENT, "schedulingGates"}
    assert quoted("gpu-topology-gates") == places | gate | {Placement.RELEASED}
    own = {names.USE_GPU_UUID, names.PLACED, names.PLACED_CONDITION, Placement.PINNED, Placement.RELEASED}
    fields = {"affinity", "nodeAffinity", "status", "conditions"}
    assert quoted("gpu-topology-place") == places | gate | own | fields
    assert quoted("gpu-topology-place-lease") == {names.PLANNER_LEASE}
    assert f'"{names.PLANNER_LEASE}"' in HELPERS


def test_the_notes_say_what_the_planner_does(helm: Helm) -> None:
    observes = notes(helm, mode("observe"))
    assert "observes: no pod waits" in observes
    assert "--reuse-values --set placement.mode=on-request" in observes
    by_default = notes(helm)
    assert "if they ask for something of their cards" in by_default
    assert "with placement.mode=on they wait for it too" in by_default
    said = notes(helm, PLACES)
    assert "chooses the cards of pods before HAMi does" in said
    assert "helm uninstall --no-hooks" in said
    assert "if they ask" not in said
    assert "lanner" not in notes(helm, mode("off"))


def test_the_extender_is_off_unless_it_is_switched_on(helm: Helm) -> None:
    objects = helm.objects(options=[PLACES, "--set=networkPolicy.enabled=true"])
    assert not [one for one in objects if one["metadata"]["name"] == "gpu-topology-extender"]
    (container,) = pod_template(objects, PLANNER)["spec"]["containers"]
    assert not [argument for argument in container["args"] if "extender" in argument]
    assert [port["name"] for port in container["ports"]] == ["ops"]


def test_the_extender_has_a_service_its_certificates_and_a_port_that_schedulers_reach(helm: Helm) -> None:
    objects = helm.objects("extender")
    spec = pod_template(objects, PLANNER)["spec"]
    (container,) = spec["containers"]
    service = pick(objects, "Service", "gpu-topology-extender")["spec"]
    assert service["selector"] == pick(objects, *PLANNER)["spec"]["selector"]["matchLabels"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports[service["ports"][0]["targetPort"]] == 8444
    assert "--extender-port=8444" in container["args"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in spec["volumes"]}
    assert f"--extender-tls={mounts['extender']}" in container["args"]
    assert f"--extender-client-ca={mounts['schedulers']}/ca.crt" in container["args"]
    assert (secrets["extender"], secrets["schedulers"]) == ("extender-tls", "extender-clients")
    ingress = pick(objects, "NetworkPolicy", "gpu-topology-place")["spec"]["ingress"]
    assert {"ports": [{"protocol": "TCP", "port": "extender"}]} in ingress


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["placement.extender.enabled=true"], "placement.extender: expected tlsSecret and clientAuthoritySecret"),
        (
            ["placement.extender.enabled=true", "placement.extender.tlsSecret=a"],
            "placement.extender: expected tlsSecret and clientAuthoritySecret",
        ),
        (
            ["placement.extender.enabled=true", "placement.mode=off"],
            "placement.extender.enabled: expected placement.mode observe, on-request or on",
        ),
        (["placement.extender.tlsSecret=A_b"], "at '/placement/extender/tlsSecret'"),
        (["placement.extender.port=1"], "at '/placement/extender': additional properties 'port' not allowed"),
    ],
)
def test_an_extender_that_could_not_work_is_refused(helm: Helm, options: list[str], complaint: str) -> None:
    done = helm.run("template", CHART, f"--kube-version={KUBERNETES}", *(f"--set={option}" for option in options))
    assert done.returncode == 1
    assert complaint in done.stderr

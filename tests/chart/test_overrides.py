"""What every chart is expected to let tools set: names, labels, registries, accounts, variables, volumes, budgets."""

import re
from typing import Any

import pytest

from tests.chart.generated import CHART
from tests.chart.helm import KUBERNETES, NAMESPACE, RELEASE, Helm, pick
from tests.chart.rendered import AGENT, PLACES, PLANNER, RELEASE_JOB, WEBHOOK, config_of, notes, pod_template

pytestmark = pytest.mark.cluster

HAMI = "hami-webhook"
"""Name of HAMi's registration, after ours in the alphabet."""
MAKERS = (WEBHOOK, PLANNER, RELEASE_JOB, AGENT)
FIXED = {"gpu-topology-webhook-tls"}
"""In the namespace of the release, what the programs look for by its name."""
PROGRAMS = {"webhook": "gpu-topology-webhook", "placement": "gpu-topology-place", "agent": "gpu-topology-agent"}
"""From sections of the values to accounts."""


def in_namespace(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects in the namespace of the release."""
    own = (one for one in objects if one["metadata"].get("namespace") == NAMESPACE)
    return {(one["kind"], one["metadata"]["name"]): one for one in own}


def all_of(objects: list[dict[str, Any]], *kinds: str) -> dict[str, Any]:
    """The objects of these kinds by their names."""
    return {one["metadata"]["name"]: one for one in objects if one["kind"] in kinds}


@pytest.mark.parametrize(
    ("option", "begins"),
    [
        ("fullnameOverride=zz-platform", "zz-platform"),
        ("nameOverride=links", f"{RELEASE}-links"),
        ("nameOverride=topology", RELEASE),
        ("nameOverride=links,fullnameOverride=zz", "zz"),
    ],
)
def test_names_of_the_namespace_follow_and_those_of_the_cluster_stay(helm: Helm, option: str, begins: str) -> None:
    everything = [PLACES, "--set=networkPolicy.enabled=true,monitoring.monitors.enabled=true"]
    everything += ["--set=monitoring.rules.enabled=true,monitoring.dashboard.enabled=true"]
    before, after = (helm.objects(options=[*everything, *more]) for more in ([], [f"--set={option}"]))
    renamed = {
        (kind, name if name in FIXED else re.sub("^gpu-topology", begins, name)) for kind, name in in_namespace(before)
    }
    assert in_namespace(after).keys() == renamed
    outside = [
        {(one["kind"], one["metadata"]["name"]) for one in objects if one["metadata"].get("namespace") != NAMESPACE}
        for objects in (before, after)
    ]
    assert outside[0] == outside[1]


@pytest.mark.parametrize("option", ["fullnameOverride=zz", "nameOverride=zz", "commonLabels.zz=zz"])
def test_the_registration_sorts_before_that_of_hami_whatever_is_set(helm: Helm, option: str) -> None:
    (name,) = all_of(helm.objects(options=[f"--set={option}"]), "MutatingWebhookConfiguration")
    assert name == "gpu-topology-webhook" < HAMI


def test_what_refers_to_a_renamed_object_finds_it(helm: Helm) -> None:
    options = [PLACES, "--set=fullnameOverride=zz", "--set=certificates.source=cert-manager"]
    objects = helm.objects("extender", options=options)
    assert {one["metadata"]["name"] for one in objects if one["kind"] == "Service"} == {"zz-webhook", "zz-extender"}
    registration = pick(objects, "MutatingWebhookConfiguration")
    assert {one["clientConfig"]["service"]["name"] for one in registration["webhooks"]} == {"zz-webhook"}
    assert registration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/zz-webhook"}
    certificate = pick(objects, "Certificate", "zz-webhook")["spec"]
    assert certificate["dnsNames"] == [f"zz-webhook.{NAMESPACE}.svc"]
    assert pick(objects, "Issuer", certificate["issuerRef"]["name"])
    accounts = set(all_of(objects, "ServiceAccount"))
    assert accounts == {"zz-webhook", "zz-place", "zz-agent"}
    for maker in (one for one in objects if "template" in one.get("spec", {})):
        spec = maker["spec"]["template"]["spec"]
        assert spec["serviceAccountName"] in accounts
        mounted = {volume["secret"]["secretName"] for volume in spec.get("volumes", []) if "secret" in volume}
        ours = {name for name in mounted if name.startswith(("zz", "gpu-topology"))}
        assert ours <= {*all_of(objects, "Secret"), certificate["secretName"]}


def test_a_renamed_service_is_the_one_that_the_certificates_are_for(helm: Helm) -> None:
    objects = helm.objects(options=["--set=fullnameOverride=zz"])
    secret = pick(objects, "Secret", "zz-webhook")
    assert secret["stringData"]["config.yaml"].count('"service": "zz-webhook"') == 1
    assert "deployment/zz-webhook" in notes(helm, "--set=fullnameOverride=zz")
    assert config_of(helm.objects()).certificates.service == "gpu-topology-webhook"


@pytest.mark.parametrize(
    ("option", "accounts"),
    [
        ("fullnameOverride=zz", {"webhook": "zz-webhook", "placement": "zz-place", "agent": "zz-agent"}),
        ("webhook.serviceAccount.name=hook", PROGRAMS | {"webhook": "hook"}),
        ("placement.serviceAccount.name=planner", PROGRAMS | {"placement": "planner"}),
        ("agent.serviceAccount.name=node", PROGRAMS | {"agent": "node"}),
    ],
)
def test_roles_policies_and_pods_follow_the_names_of_accounts(
    helm: Helm, option: str, accounts: dict[str, str]
) -> None:
    objects = helm.objects("taints", options=[PLACES, f"--set={option}"])
    assert set(all_of(objects, "ServiceAccount")) == set(accounts.values())
    bindings = all_of(objects, "RoleBinding", "ClusterRoleBinding").values()
    assert {subject["name"] for one in bindings for subject in one["subjects"]} == set(accounts.values())
    for maker, program in zip(MAKERS, ("webhook", "placement", "placement", "agent"), strict=True):
        kind, name = maker
        renamed = re.sub("^gpu-topology", "zz", name) if option.startswith("fullname") else name
        assert pod_template(objects, (kind, renamed))["spec"]["serviceAccountName"] == accounts[program]
    user = {name: f"'system:serviceaccount:{NAMESPACE}:{account}'" for name, account in accounts.items()}
    named = {
        name: set(re.findall(rf"'system:serviceaccount:{NAMESPACE}:[^']*'", str(policy["spec"]["matchConditions"])))
        for name, policy in all_of(objects, "ValidatingAdmissionPolicy").items()
    }
    assert named == {
        "gpu-topology-agent": {user["agent"]},
        "gpu-topology-agent-taints": {user["agent"]},
        "gpu-topology-gates": {user["webhook"]},
        "gpu-topology-outputs": {user["webhook"], user["placement"]},
        "gpu-topology-pins": {user["webhook"], user["placement"]},
        "gpu-topology-place": {user["placement"]},
        "gpu-topology-place-lease": {user["placement"]},
        "gpu-topology-workloads": set(),
        "gpu-topology-workloads-cronjobs": set(),
        "gpu-topology-workloads-jobsets": set(),
    }


@pytest.mark.parametrize("section", PROGRAMS)
def test_an_account_of_somebody_else_is_used_and_not_made(helm: Helm, section: str) -> None:
    options = [f"--set={section}.serviceAccount.create=false,{section}.serviceAccount.name=theirs"]
    objects = helm.objects(options=options)
    assert set(all_of(objects, "ServiceAccount")) == set(PROGRAMS.values()) - {PROGRAMS[section]}
    bindings = all_of(objects, "RoleBinding", "ClusterRoleBinding").values()
    assert "theirs" in {subject["name"] for one in bindings for subject in one["subjects"]}


def test_accounts_are_annotated(helm: Helm) -> None:
    for account in all_of(helm.objects("tools"), "ServiceAccount").values():
        assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/none"}
    assert all("annotations" not in one["metadata"] for one in all_of(helm.objects(), "ServiceAccount").values())


def test_every_object_and_every_pod_has_the_common_labels_and_no_selector_has(helm: Helm) -> None:
    objects = helm.objects("tools", options=[PLACES, "--set=monitoring.dashboard.enabled=true"])
    for one in objects:
        labels = one["metadata"]["labels"]
        expected = "gpus" if one["kind"] in {"ServiceMonitor", "PodMonitor"} else "platform"
        assert (labels["team"], labels["app.kubernetes.io/part-of"]) == (expected, "gpus")
        assert labels["app.kubernetes.io/name"] == "gpu-topology-webhook"
    for maker in MAKERS:
        labels = pod_template(objects, maker)["metadata"]["labels"]
        assert (labels["team"], labels["app.kubernetes.io/part-of"]) == ("gpus", "gpus")
        assert labels["hami.io/webhook"] == "ignore"
    selecting = [pick(objects, *maker)["spec"].get("selector") for maker in MAKERS]
    assert not any("team" in str(selector) for selector in selecting)


def test_labels_of_pods_never_take_the_place_of_ours(helm: Helm) -> None:
    label = "app\\.kubernetes\\.io/component=x"
    text = helm.template(f"--set={','.join(f'{section}.podLabels.{label}' for section in PROGRAMS)}", PLACES)
    assert "app.kubernetes.io/component: x" not in text


def test_a_registry_of_all_charts_takes_the_place_of_that_of_both_images(helm: Helm) -> None:
    objects = helm.objects("tools", options=[PLACES])
    mirror = "mirror.example.com:5000/cache/gpu-topology-webhook"
    assert {pod_template(objects, maker)["spec"]["containers"][0]["image"] for maker in MAKERS} == {
        f"{mirror}/gpu-topology-webhook:0.1.0"
    }
    assert config_of(objects).remap.image == f"{mirror}/gpu-topology-remap:0.1.0"


@pytest.mark.parametrize(
    ("repository", "image"),
    [
        ("registry.local:5000/gpu/gt", "m.example/gpu/gt"),
        ("localhost/gt", "m.example/gt"),
        ("library/gt", "m.example/library/gt"),
        ("gt", "m.example/gt"),
    ],
)
def test_the_first_part_of_a_repository_is_a_registry_if_it_looks_like_a_host(
    helm: Helm, repository: str, image: str
) -> None:
    options = [f"--set=global.imageRegistry=m.example,image.repository={repository},remapImage.repository={repository}"]
    objects = helm.objects(options=options)
    assert pod_template(objects, WEBHOOK)["spec"]["containers"][0]["image"] == f"{image}:0.1.0"
    assert config_of(objects).remap.image == f"{image}:0.1.0"
    named = helm.objects(options=[*options, "--set=config.remap.image=a.example/b:1"])
    assert config_of(named).remap.image == "a.example/b:1"


def test_secrets_for_pulling_are_those_of_all_charts_and_of_this_one_each_once(helm: Helm) -> None:
    objects = helm.objects("tools", options=[PLACES])
    for maker in MAKERS:
        assert pod_template(objects, maker)["spec"]["imagePullSecrets"] == [{"name": "mirror"}, {"name": "registry"}]
        assert "imagePullSecrets" not in pod_template(helm.objects(options=[PLACES]), maker)["spec"]


def test_variables_volumes_and_the_rest_reach_every_program_alike(helm: Helm) -> None:
    objects = helm.objects("tools", options=[PLACES])
    for maker in MAKERS:
        template = pod_template(objects, maker)
        (container,) = template["spec"]["containers"]
        assert {"HTTPS_PROXY", "ZONE"} <= {one["name"] for one in container["env"]}
        assert template["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
        assert template["spec"]["priorityClassName"].startswith("system-")
        if maker != RELEASE_JOB:  # it only writes to the API server
            assert {"name": "authorities", "configMap": {"name": "authorities"}} in template["spec"]["volumes"]
            assert "/etc/authorities" in {mount["mountPath"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize("maker", [WEBHOOK, PLANNER])
def test_constraints_on_spreading_replace_ours_and_count_our_pods_unless_they_say_which(
    helm: Helm, maker: tuple[str, str]
) -> None:
    spec = pick(helm.objects("tools"), *maker)["spec"]
    zone, rack = spec["template"]["spec"]["topologySpreadConstraints"]
    assert zone == {
        "topologyKey": "topology.kubernetes.io/zone",
        "maxSkew": 2,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": spec["selector"],
    }
    assert rack["labelSelector"] == {"matchLabels": {"team": "gpus"}}


def test_a_budget_is_of_pods_that_may_go_or_of_those_that_stay_or_there_is_none(helm: Helm) -> None:
    budgets = all_of(helm.objects("tools"), "PodDisruptionBudget")
    limits = {name: {"maxUnavailable", "minAvailable"} & one["spec"].keys() for name, one in budgets.items()}
    assert limits == {"gpu-topology-webhook": {"maxUnavailable"}, "gpu-topology-place": {"minAvailable"}}
    assert budgets["gpu-topology-place"]["spec"]["minAvailable"] == "50%"
    zero = helm.objects(options=["--set=webhook.podDisruptionBudget.minAvailable=0"])
    assert pick(zero, "PodDisruptionBudget", "gpu-topology-webhook")["spec"]["minAvailable"] == 0
    for section, other in (("webhook", "gpu-topology-place"), ("placement", "gpu-topology-webhook")):
        left = helm.objects(options=[f"--set={section}.podDisruptionBudget.enabled=false"])
        assert set(all_of(left, "PodDisruptionBudget")) == {other}


def test_ports_of_dns_and_senders_of_reviews_can_be_limited(helm: Helm) -> None:
    policies = all_of(helm.objects("tools"), "NetworkPolicy")
    for policy in policies.values():
        dns = [(port["protocol"], port["port"]) for port in policy["spec"]["egress"][-1]["ports"]]
        assert dns == [("UDP", 53), ("TCP", 53), ("UDP", 5353), ("TCP", 5353)]
    reviews, _ = policies["gpu-topology-webhook"]["spec"]["ingress"]
    assert reviews["from"] == [{"ipBlock": {"cidr": "10.1.0.0/28"}}]


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("fullnameOverride=Upper", "at '/fullnameOverride'"),
        ("fullnameOverride=" + "a" * 41, "at '/fullnameOverride': maxLength: got 41, want 40"),
        ("nameOverride=-a", "at '/nameOverride'"),
        ("commonLabels.app\\.kubernetes\\.io/name=x", "at '/commonLabels/app.kubernetes.io~1name': false schema"),
        ("commonLabels.hami\\.io/webhook=x", "at '/commonLabels/hami.io~1webhook': false schema"),
        ("commonLabels.a=1", "at '/commonLabels/a': got number, want string"),
        ("global.imageRegistry=a b", "at '/global/imageRegistry'"),
        ("openshift.enabled=yes", "at '/openshift/enabled'"),
        ("webhook.extraEnv[0].name=POD_NAME", "at '/webhook/extraEnv/0/name': 'not' failed"),
        ("agent.extraEnv[0].name=NVIDIA_VISIBLE_DEVICES", "at '/agent/extraEnv/0/name': 'not' failed"),
        ("agent.topologySpreadConstraints[0].maxSkew=1", "additional properties 'topologySpreadConstraints'"),
        ("placement.podDisruptionBudget.maxUnavailable=half", "at '/placement/podDisruptionBudget/maxUnavailable'"),
        ("webhook.serviceAccount.name=gpu-topology-place", "expected an account for each of webhook, placement and"),
        ("agent.serviceAccount.name=default", "and not the account default, found gpu-topology-webhook, gpu-topology-"),
    ],
)
def test_what_would_break_the_release_is_refused(helm: Helm, setting: str, complaint: str) -> None:
    given = (f"--kube-version={KUBERNETES}", f"--namespace={NAMESPACE}", "--set", setting)
    done = helm.run("template", RELEASE, CHART, *given)
    assert done.returncode == 1
    assert complaint in done.stderr

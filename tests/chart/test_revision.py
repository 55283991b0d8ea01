"""A revision beside the default release: no object of both, no namespace of both, nothing that a cluster has once."""

import re
import shutil
from collections.abc import Iterable, Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from tests.chart.generated import CHART
from tests.chart.helm import KUBERNETES, NAMESPACE, RELEASE, VALUES, Helm, pick
from tests.chart.rendered import PLACES, WEBHOOK, config_of, notes, pod_template
from tests.chart.test_overrides import HAMI, all_of
from tests.chart.test_rendering import granted, needed
from webhook.cluster.api.permissions import WEBHOOK as PERMISSIONS
from webhook.words.names import PLANNER_LEASE, REVISION

pytestmark = pytest.mark.cluster

CASES = ["", *sorted(path.stem for path in VALUES.glob("*.yaml") if path.stem != "release-0.1.0")]
CANARY = "--set=revision=canary"
EVERYTHING = (PLACES, "--set=networkPolicy.enabled=true,monitoring.monitors.enabled=true")
NAMES = ("canary", "next", "1-20-1", "webhook", "place", "a", "canary-ca", "canary-tls", "x-claims", "z" * 14)
"""Revisions, some of them hard to tell from other names of the chart."""
RESERVED = ("tls", "ca", "claims", "certificates", "cert-manager", "self-signed", "default", "tls-canary", "ca-x")
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:gpu-topology-webhook"


def identities(objects: Iterable[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of each object. Secrets that cert-manager makes are objects too."""
    found = set()
    for one in objects:
        metadata = one["metadata"]
        found.add((one["kind"], metadata.get("namespace", ""), metadata["name"]))
        if one["kind"] == "Certificate":
            found.add(("Secret", metadata["namespace"], one["spec"]["secretName"]))
    return found


def render(helm: Helm, revision: str, case: str = "", *options: str) -> list[dict[str, Any]]:
    own = [f"--set-string=revision={revision}"] if revision else []
    return helm.objects(*([case] if case else []), options=[*own, *options])


@pytest.mark.parametrize("case", CASES)
def test_two_releases_have_no_object_in_common(helm: Helm, case: str) -> None:
    default, canary = (render(helm, revision, case, *EVERYTHING) for revision in ("", "canary"))
    assert len(identities(canary)) > 10
    assert identities(default) & identities(canary) == set()


@pytest.mark.parametrize("source", ["managed", "cert-manager"])
def test_no_two_revisions_have_an_object_in_common_whatever_their_names(helm: Helm, source: str) -> None:
    options = (*EVERYTHING, f"--set=certificates.source={source},claims.enabled=true")
    of = {revision: identities(render(helm, revision, "", *options)) for revision in ("", *NAMES)}
    common = {pair: of[pair[0]] & of[pair[1]] for pair in combinations(of, 2)}
    assert {pair: found for pair, found in common.items() if found} == {}


@pytest.mark.parametrize("case", CASES)
def test_a_revision_is_the_webhook_alone(helm: Helm, case: str) -> None:
    canary = render(helm, "canary", case, *EVERYTHING)
    for one in canary:
        labels = one["metadata"]["labels"]
        assert (labels[REVISION], labels["app.kubernetes.io/component"]) == ("canary", "webhook-canary")
    assert {one["kind"] for one in canary} <= {
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount", "Secret", "Service"),
        *("Deployment", "PodDisruptionBudget", "NetworkPolicy", "MutatingWebhookConfiguration", "ServiceMonitor"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "Certificate", "Issuer"),
    }
    policies = set(all_of(canary, "ValidatingAdmissionPolicy"))
    assert policies == {"gpu-topology-gates-canary"}
    assert REVISION not in str([one["metadata"] for one in render(helm, "", case, *EVERYTHING)])


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects: kubernetes.io, "Labels and Selectors"."""

    def holds(key: str, operator: str, values: list[str]) -> bool:
        verdicts = {
            "In": key in labels and labels[key] in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        return verdicts[operator]

    wanted = selector.get("matchLabels", {}).items()
    expressions = selector.get("matchExpressions", [])
    return wanted <= labels.items() and all(
        holds(one["key"], one["operator"], one.get("values", [])) for one in expressions
    )


def test_every_namespace_that_opted_in_belongs_to_one_release_at_most(helm: Helm) -> None:
    revisions = ("", "canary", "next")
    rendered = {revision: pick(render(helm, revision), "MutatingWebhookConfiguration") for revision in revisions}
    label_values = (None, *revisions, "gone", "Canary", "canary ")
    injections = (None, "enabled", "disabled")
    for number, (revision, injection, name) in enumerate(product(label_values, injections, ("team-a", NAMESPACE))):
        given = {REVISION: revision, "gpu.topology/injection": injection, "kubernetes.io/metadata.name": name}
        labels = {key: value for key, value in given.items() if value is not None}
        for webhook in (0, 1):
            asked = [
                one for one in revisions if matches(rendered[one]["webhooks"][webhook]["namespaceSelector"], labels)
            ]
            served = "" if revision is None else revision or None
            may = injection == "enabled" and name == "team-a" and served in revisions
            assert asked == ([served] if may else []), (number, labels)


def test_selectors_of_the_default_release_find_no_pod_of_a_revision_and_the_other_way_round(helm: Helm) -> None:
    default, canary = (render(helm, revision, "", *EVERYTHING) for revision in ("", "canary"))
    name = (WEBHOOK[0], f"{WEBHOOK[1]}-canary")
    pods = {"": pod_template(default, WEBHOOK), "canary": pod_template(canary, name)}
    labels = {revision: pod["metadata"]["labels"] for revision, pod in pods.items()}
    for revision, objects, other in (("", default, "canary"), ("canary", canary, "")):
        selectors = list(selectors_of(objects))
        assert sum(matches(selector, labels[revision]) for selector in selectors) >= 6
        assert not any(matches(selector, labels[other]) for selector in selectors)


def selectors_of(objects: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Every selector of pods."""
    for one in objects:
        spec = one.get("spec", {})
        if one["kind"] == "Service":
            yield {"matchLabels": spec["selector"]}
        elif one["kind"] in {"Deployment", "DaemonSet", "PodDisruptionBudget"}:
            yield spec["selector"]
        elif one["kind"] == "NetworkPolicy":
            yield spec["podSelector"]
        pod = spec.get("template", {}).get("spec", {})
        yield from (constraint["labelSelector"] for constraint in pod.get("topologySpreadConstraints", []))


def test_a_revision_refers_to_its_own_certificates_and_account_and_to_the_planner_of_all(helm: Helm) -> None:
    objects = render(helm, "canary")
    settings = config_of_canary(objects)
    registration = pick(objects, "MutatingWebhookConfiguration")
    (service,) = {one["clientConfig"]["service"]["name"] for one in registration["webhooks"]}
    assert (settings.service, settings.webhook_configuration) == (service, registration["metadata"]["name"])
    assert settings.secret == "gpu-topology-webhook-tls-canary"  # noqa: S105 - a name
    assert pick(objects, "Secret", settings.secret)["type"] == "gpu.topology/certificates"
    assert pick(objects, "Service")["metadata"]["name"] == service
    pod = pod_template(objects, ("Deployment", "gpu-topology-webhook-canary"))["spec"]
    assert pod["serviceAccountName"] == pick(objects, "ServiceAccount")["metadata"]["name"]
    mounted = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert mounted <= set(all_of(objects, "Secret"))
    rights = {(scope, resource, verb, name) for scope, _, resource, verb, name in granted(objects, service)}
    assert ("own-namespace", "leases", "watch", PLANNER_LEASE) in rights
    named = {name for *_, name in rights if name.startswith("gpu-topology-webhook")}
    assert named == {settings.secret, settings.webhook_configuration}
    own = {each for each in granted(objects, service) if not each[-1].startswith("gpu-topology-webhook")}
    assert own - {("own-namespace", "coordination.k8s.io", "leases", "create", "")} == needed(PERMISSIONS)


def config_of_canary(objects: list[dict[str, Any]]) -> Any:
    """The names of certificates in the configuration of the revision."""
    secret = pick(objects, "Secret", "gpu-topology-webhook-canary")
    renamed = secret | {"metadata": {"name": "gpu-topology-webhook"}}
    return config_of([renamed]).certificates


def test_certificates_of_cert_manager_are_for_the_service_of_the_revision(helm: Helm) -> None:
    objects = render(helm, "canary", "cert-manager")
    certificate = pick(objects, "Certificate", "gpu-topology-webhook-canary")["spec"]
    assert certificate["dnsNames"] == [f"gpu-topology-webhook-canary.{NAMESPACE}.svc"]
    registration = pick(objects, "MutatingWebhookConfiguration")["metadata"]
    assert registration["annotations"] == {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/gpu-topology-webhook-canary"}


def accounts_of(policy: dict[str, Any]) -> set[str]:
    """The user names in the conditions of a policy."""
    return set(re.findall(r"'(system:serviceaccount:[^']*)'", str(policy["spec"]["matchConditions"])))


def test_policies_name_the_accounts_of_all_revisions_and_each_revision_is_limited_by_its_own(helm: Helm) -> None:
    default = all_of(render(helm, "", "", PLACES, "--set=revisions={canary,next}"), "ValidatingAdmissionPolicy")
    planner = f"system:serviceaccount:{NAMESPACE}:gpu-topology-place"
    assert accounts_of(default["gpu-topology-outputs"]) == {ACCOUNT, planner, f"{ACCOUNT}-canary", f"{ACCOUNT}-next"}
    assert accounts_of(default["gpu-topology-gates"]) == {ACCOUNT}
    gates = pick(render(helm, "canary"), "ValidatingAdmissionPolicy")
    assert accounts_of(gates) == {f"{ACCOUNT}-canary"}
    limits = [one["message"] for one in gates["spec"]["validations"]]
    assert set(limits) - {one["message"] for one in default["gpu-topology-gates"]["spec"]["validations"]} == {
        "revision canary of gpu-topology-webhook changes pods of the namespaces with its label alone"
    }


@pytest.mark.parametrize("option", ["webhook.serviceAccount.name=hook", "fullnameOverride=zz"])
def test_the_account_that_the_default_release_names_is_that_of_the_revision_with_the_same_values(
    helm: Helm, option: str
) -> None:
    named = pick(
        render(helm, "", "", f"--set={option},revisions={{canary}}"),
        "ValidatingAdmissionPolicy",
        "gpu-topology-outputs",
    )
    account = pick(render(helm, "canary", "", f"--set={option}"), "ServiceAccount")["metadata"]
    assert f"system:serviceaccount:{account['namespace']}:{account['name']}" in accounts_of(named)


@pytest.mark.parametrize("option", ["fullnameOverride=zz", "commonLabels.zz=zz", "webhook.serviceAccount.name=zz"])
@pytest.mark.parametrize("revision", ["", "canary", "zz", "z" * 14])
def test_the_name_of_the_registration_sorts_before_that_of_hami_and_no_override_reaches_it(
    helm: Helm, revision: str, option: str
) -> None:
    (name,) = all_of(render(helm, revision, "", f"--set={option}"), "MutatingWebhookConfiguration")
    assert name == f"gpu-topology-webhook{'-' if revision else ''}{revision}" < HAMI


def test_a_chart_with_a_registration_after_that_of_hami_does_not_render(helm: Helm, tmp_path: Path) -> None:
    chart = Path(shutil.copytree(CHART, tmp_path / "chart"))
    names = chart / "templates" / "_helpers.tpl"
    text = names.read_text(encoding="utf-8")
    assert text.count('"gpu-topology-webhook%s"') == 1
    names.write_text(text.replace('"gpu-topology-webhook%s"', '"hami-webhook-links%s"'), encoding="utf-8")
    done = helm.run("template", RELEASE, chart, f"--kube-version={KUBERNETES}")
    assert done.returncode == 1
    assert "expected one before hami-webhook in the alphabet" in done.stderr


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        *(
            (f"revision={name}", f"expected a word that ends no other name of the chart, found {name}")
            for name in RESERVED
        ),
        ("revisions={tls}", "expected a word that ends no other name of the chart, found tls"),
        ("revision=Canary", "at '/revision'"),
        ("revision=-canary", "at '/revision'"),
        ("revision=" + "a" * 15, "at '/revision': maxLength: got 15, want 14"),
        ("revisions={canary,canary}", "at '/revisions'"),
        ("revision=canary,nameOverride=links", "nameOverride: expected none with revision canary"),
        (
            "revision=canary,revisions={next,other}",
            "expected canary among the revisions that the policies of the default",
        ),
        (
            "revision=canary,config.certificates.secret=mine",
            "config.certificates.secret: expected gpu-topology-webhook-tls-",
        ),
    ],
)
def test_what_contradicts_a_revision_is_refused(helm: Helm, settings: str, complaint: str) -> None:
    given = (f"--kube-version={KUBERNETES}", f"--namespace={NAMESPACE}", "--set", settings)
    done = helm.run("template", RELEASE, CHART, *given)
    assert done.returncode == 1
    assert complaint in done.stderr


def test_notes_of_a_revision_lead_there_and_back(helm: Helm) -> None:
    said = notes(helm, CANARY)
    assert "rollout status deployment/gpu-topology-webhook-canary" in said
    assert f"kubectl label --overwrite namespace NAMESPACE {REVISION}=canary" in said
    assert f"kubectl label namespace NAMESPACE {REVISION}-" in said
    assert REVISION not in notes(helm)

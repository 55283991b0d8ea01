"""The chart at a real API server: its objects are accepted, installed, upgraded and removed."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes.client import (
    AdmissionregistrationV1Api,
    CoordinationV1Api,
    CoreV1Api,
)

from tests.chart.generated import CHART
from tests.chart.helm import INSTALL, RELEASE, VALUES, Helm, documents, pick
from tests.chart.rendered import AGENT, PLACES, PLANNER, RELEASE_JOB, WEBHOOK
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.manifests import CUSTOM, apply, find, path_of, request
from tests.control_plane.registration import Answer, create_pod
from tests.programs.server.conftest import until

pytestmark = pytest.mark.cluster

CASES = ["", *sorted(path.stem for path in VALUES.glob("*.yaml"))]
BUNDLE = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJmakNDQVNXZ0F3SUJBZ0lCQVRBS0JnZ3Foa2pPUFFRREFqQUFNQjRYRFRJMg=="
ENFORCE = "pod-security.kubernetes.io/enforce"
FORBIDDEN: dict[str, Any] = {
    "metadata": {"name": "forbidden"},
    "spec": {"hostNetwork": True, "containers": [{"name": "main", "image": "x"}]},
}
PREVIOUS = "release-0.1.0"


class Release:
    """An installed chart."""

    def __init__(self, helm: Helm, control_plane: ControlPlane, namespace: str) -> None:
        self._helm = helm
        self._options = (f"--kubeconfig={control_plane.kubeconfig}", f"--namespace={namespace}")

    def run(self, command: str, *arguments: str) -> str:
        """Standard output of Helm; it must work."""
        done = self._helm.run(command, RELEASE, *arguments, *self._options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def manifest(self) -> list[dict[str, Any]]:
        """The objects that Helm says it installed."""
        done = self._helm.run("get", "manifest", RELEASE, *self._options)
        assert done.returncode == 0, done.stderr
        return documents(done.stdout)


@contextmanager
def installed(helm: Helm, control_plane: ControlPlane, namespace: str, *options: str) -> Iterator[Release]:
    """The chart in that namespace, for as long as the context lasts."""
    release = Release(helm, control_plane, namespace)
    release.run("install", str(CHART), *options)
    try:
        yield release
    finally:
        release.run("uninstall", "--ignore-not-found", "--no-hooks")  # no controller runs its Job here


def test_every_object_is_one_that_the_api_server_knows_in_each_field(
    helm: Helm, control_plane: ControlPlane, namespace: str
) -> None:
    """Of all sets of values, each object once."""
    asked = set[str]()
    for case in CASES:
        objects = helm.objects(*([case] if case else []), namespace=namespace, options=[PLACES])
        builtin = [one for one in objects if one["apiVersion"] not in CUSTOM]
        assert len(builtin) >= 8
        for one in builtin:
            if (text := json.dumps(one)) not in asked:
                asked.add(text)
                # Others are looked for in a namespace.
                answer = apply(control_plane, one, dry_run=one["kind"] != "Namespace")
                told = f"{case}: {one['kind']} {one['metadata']['name']}: {answer.text}"
                assert answer.status_code in {200, 201}, told


def test_a_field_that_does_not_exist_would_be_found(helm: Helm, control_plane: ControlPlane, namespace: str) -> None:
    deployment = copy.deepcopy(pick(helm.objects(namespace=namespace), *WEBHOOK))
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    answer = apply(control_plane, deployment, dry_run=True)
    assert answer.status_code in {400, 500}
    assert "readynessProbe" in answer.json()["message"]


def test_install_yaml_can_be_applied_from_its_first_line_to_its_last(control_plane: ControlPlane) -> None:
    objects = documents(INSTALL.read_text(encoding="utf-8"))
    assert objects[0]["kind"] == "Namespace"
    try:
        for one in objects:
            answer = apply(control_plane, one)
            assert answer.status_code in {200, 201}, f"{one['kind']} {one['metadata']['name']}: {answer.text}"
    finally:
        for one in objects[1:]:  # without controllers a namespace would not go away
            request(control_plane, "DELETE", path_of(one))


def pod_of(maker: dict[str, Any]) -> dict[str, Any]:
    """A pod as the controller of a Deployment, DaemonSet or Job would create it."""
    template = copy.deepcopy(maker["spec"]["template"])
    metadata = template["metadata"] | {"name": maker["metadata"]["name"]}
    return {"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata}


def enforce(admin: CoreV1Api, control_plane: ControlPlane, namespace: str, level: str) -> None:
    admin.patch_namespace(namespace, {"metadata": {"labels": {ENFORCE: level}}})
    until(lambda: create_pod(control_plane, namespace, FORBIDDEN, dry_run=True).status == 403, "Pod Security")


def answers_to_pods(
    helm: Helm, control_plane: ControlPlane, admin: CoreV1Api, namespace: str, *case: str
) -> dict[tuple[str, str], Answer]:
    """What the API server says to the pods of that case, by the name of what would create them, at level restricted."""
    enforce(admin, control_plane, namespace, "restricted")
    objects = helm.objects(*case, namespace=namespace, options=[PLACES])
    for account in (one for one in objects if one["kind"] == "ServiceAccount"):
        assert apply(control_plane, account).status_code == 201
    pods = {(one["kind"], one["metadata"]["name"]): pod_of(one) for one in objects if "template" in one.get("spec", {})}
    return {maker: create_pod(control_plane, namespace, pod, dry_run=True) for maker, pod in pods.items()}


@pytest.mark.parametrize("case", ["", "minimal", "tools"])
def test_pods_of_ours_fit_pod_security_restricted(
    helm: Helm, control_plane: ControlPlane, admin: CoreV1Api, namespace: str, case: str
) -> None:
    answers = answers_to_pods(helm, control_plane, admin, namespace, *([case] if case else []))
    assert answers.keys() == {WEBHOOK, PLANNER, RELEASE_JOB} | (set() if case == "minimal" else {AGENT})
    assert [answer.message for answer in answers.values() if answer.status != 201] == []


@pytest.mark.parametrize(
    "case",
    [
        (
            "host-sysfs",
            AGENT,
            'restricted volume types (volumes "sys", "cpuinfo" use restricted volume type "hostPath")',
        ),
        (
            "host-network",
            WEBHOOK,
            'host namespaces (hostNetwork=true), hostPort (container "webhook" uses hostPorts 10080, 10443)',
        ),
    ],
)
def test_only_what_is_the_hosts_is_above_restricted(
    helm: Helm,
    control_plane: ControlPlane,
    admin: CoreV1Api,
    namespace: str,
    case: tuple[str, tuple[str, str], str],
) -> None:
    values, maker, why = case
    answers = answers_to_pods(helm, control_plane, admin, namespace, values)
    assert [one for one, answer in answers.items() if answer.status != 201] == [maker]
    assert answers[maker].status == 403
    assert answers[maker].message.endswith(f'violates PodSecurity "restricted:latest": {why}')


@pytest.mark.parametrize("server_side", ["true", "false"], ids=["server-side-apply", "three-way-merge"])
def test_an_upgrade_leaves_the_bundle_that_the_webhook_has_written(
    helm: Helm, control_plane: ControlPlane, namespace: str, server_side: str
) -> None:
    def bundles() -> list[tuple[str, int]]:
        stored = registrations.read_mutating_webhook_configuration("gpu-topology-webhook").webhooks or []
        return [(str(one.client_config.ca_bundle or ""), one.timeout_seconds or 0) for one in stored]

    how = f"--server-side={server_side}"
    with (
        installed(helm, control_plane, namespace, f"--values={VALUES / PREVIOUS}.yaml", how) as release,
        control_plane.client() as client,
    ):
        registrations = AdmissionregistrationV1Api(client)
        assert bundles() == [("", 5), ("", 5)]
        patch = [{"op": "add", "path": f"/webhooks/{n}/clientConfig/caBundle", "value": BUNDLE} for n in (0, 1)]
        registrations.patch_mutating_webhook_configuration("gpu-topology-webhook", patch)
        release.run("upgrade", str(CHART), how, "--set=admission.pods.timeoutSeconds=4")
        assert bundles() == [(BUNDLE, 4), (BUNDLE, 5)]


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--force-replace", "--server-side=false")], ids=["upgrade", "replace"])
def test_the_registration_comes_back_after_it_was_deleted_and_a_replacement_empties_its_bundle(
    helm: Helm, control_plane: ControlPlane, namespace: str, options: tuple[str, ...]
) -> None:
    with installed(helm, control_plane, namespace) as release, control_plane.client() as client:
        registrations = AdmissionregistrationV1Api(client)
        patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": BUNDLE}]
        registrations.patch_mutating_webhook_configuration("gpu-topology-webhook", patch)
        if not options:
            registrations.delete_mutating_webhook_configuration("gpu-topology-webhook")
        release.run("upgrade", str(CHART), *options)
        stored = registrations.read_mutating_webhook_configuration("gpu-topology-webhook").webhooks or []
        assert [one.client_config.ca_bundle for one in stored] == [None, None]


@pytest.mark.long
def test_another_source_of_certificates_takes_the_bundle_over_if_it_is_told_to(
    helm: Helm, control_plane: ControlPlane, namespace: str
) -> None:
    secret = f"--values={VALUES / 'secret'}.yaml"
    with installed(helm, control_plane, namespace) as release, control_plane.client() as client:
        registrations = AdmissionregistrationV1Api(client)
        patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": BUNDLE}]
        registrations.patch_mutating_webhook_configuration("gpu-topology-webhook", patch)
        with pytest.raises(AssertionError, match=r"(?s)conflict.*pods\.gpu\.topology.*caBundle"):
            release.run("upgrade", str(CHART), secret)
        release.run("upgrade", str(CHART), secret, "--force-conflicts")
        stored = registrations.read_mutating_webhook_configuration("gpu-topology-webhook").webhooks or []
        assert [one.client_config.ca_bundle for one in stored] == ["LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="] * 2


@pytest.mark.long
@pytest.mark.parametrize(("case", "server_side"), [("minimal", "true"), ("ha", "false")])
def test_an_upgrade_from_the_values_of_the_release_before_changes_objects_in_place(
    helm: Helm, control_plane: ControlPlane, namespace: str, case: str, server_side: str
) -> None:
    how = f"--server-side={server_side}"
    values = [f"--values={VALUES / case}.yaml"] if case else []
    with installed(helm, control_plane, namespace, f"--values={VALUES / PREVIOUS}.yaml", how) as release:
        before = {path_of(one): find(control_plane, one)["metadata"]["uid"] for one in release.manifest()}
        release.run("upgrade", str(CHART), how, *values)
        after = {path_of(one): find(control_plane, one)["metadata"]["uid"] for one in release.manifest()}
        gone = before.keys() - after.keys()
        assert {path: uid for path, uid in after.items() if path in before} == {
            path: uid for path, uid in before.items() if path not in gone
        }
        assert bool(gone) is (case == "minimal")
        for path in gone:
            assert is_gone(control_plane, path)


@pytest.mark.long
def test_a_renamed_release_is_installed_upgraded_and_removed(
    helm: Helm, control_plane: ControlPlane, namespace: str
) -> None:
    option = "nameOverride=links,placement.serviceAccount.name=planner"
    values = f"--values={VALUES / 'tools'}.yaml"
    monitors = "--set=monitoring.monitors.enabled=false"  # this API server does not know them
    with installed(helm, control_plane, namespace, values, monitors, f"--set={option}") as release:
        objects = release.manifest()
        before = {path_of(one): find(control_plane, one)["metadata"]["uid"] for one in objects}
        release.run("upgrade", str(CHART), values, monitors, f"--set={option},webhook.replicas=3")
        assert {path_of(one): find(control_plane, one)["metadata"]["uid"] for one in release.manifest()} == before
        release.run("uninstall", "--no-hooks")
        assert [path_of(one) for one in objects if not is_gone(control_plane, path_of(one))] == []


def is_gone(control_plane: ControlPlane, path: str) -> bool:
    """Whether it is deleted; what ends a namespace then is a controller, which is not here."""
    answer = request(control_plane, "GET", path)
    return answer.status_code == 404 or "deletionTimestamp" in answer.json()["metadata"]


TLS = "gpu-topology-webhook-tls"


@pytest.mark.long
@pytest.mark.parametrize("server_side", ["true", "false"], ids=["server-side-apply", "three-way-merge"])
def test_an_upgrade_leaves_what_the_webhook_has_written_into_its_secret(
    helm: Helm, control_plane: ControlPlane, admin: CoreV1Api, namespace: str, server_side: str
) -> None:
    how = f"--server-side={server_side}"
    with installed(helm, control_plane, namespace, how) as release:
        fill(admin, namespace)
        release.run("upgrade", str(CHART), how)
        release.run("upgrade", str(CHART), how, "--set=webhook.replicas=3")
        release.run("rollback", "1")
        found = admin.read_namespaced_secret(TLS, namespace)
        assert (found.type, found.data) == ("gpu.topology/certificates", {"tls.crt": "eA=="})


def fill(admin: CoreV1Api, namespace: str) -> None:
    """As the webhook does: the whole object, with the version that was read."""
    secret = admin.read_namespaced_secret(TLS, namespace)
    assert secret.data is None
    secret.data = {"tls.crt": "eA=="}
    admin.replace_namespaced_secret(TLS, namespace, secret)


@pytest.mark.long
def test_a_secret_that_was_deleted_comes_back_empty_with_an_upgrade_and_goes_with_another_source(
    helm: Helm, control_plane: ControlPlane, admin: CoreV1Api, namespace: str
) -> None:
    def names() -> set[str | None]:
        return {one.metadata.name for one in admin.list_namespaced_secret(namespace).items if one.metadata}

    with installed(helm, control_plane, namespace) as release:
        fill(admin, namespace)
        admin.delete_namespaced_secret(TLS, namespace)
        release.run("upgrade", str(CHART))
        fill(admin, namespace)
        release.run("upgrade", str(CHART), f"--values={VALUES / 'secret'}.yaml")
        assert TLS not in names()
        release.run("upgrade", str(CHART), "--reset-values")
        assert TLS in names()
    assert TLS not in names()


def test_uninstalling_leaves_only_what_the_programs_wrote_themselves(
    helm: Helm, control_plane: ControlPlane, admin: CoreV1Api, namespace: str
) -> None:
    written: Any = {"metadata": {"name": "gpu-topology-webhook.pod"}}
    with installed(helm, control_plane, namespace) as release, control_plane.client() as client:
        CoordinationV1Api(client).create_namespaced_lease(namespace, written)
        objects = release.manifest()
        assert all(find(control_plane, one) for one in objects)
        release.run("uninstall", "--no-hooks")
        assert [path_of(one) for one in objects if not is_gone(control_plane, path_of(one))] == []
        left = CoordinationV1Api(client).list_namespaced_lease(namespace).items
        assert [one.metadata.name for one in left if one.metadata] == ["gpu-topology-webhook.pod"]
    secrets = admin.list_namespaced_secret(namespace).items
    assert [one.metadata.name for one in secrets if one.metadata] == []
    config_maps = admin.list_namespaced_config_map(namespace).items
    assert [one.metadata.name for one in config_maps if one.metadata] == []


@pytest.mark.parametrize("account", ["gpu-tools/my-hami-scheduler", "hami-system/hami-scheduler"])
def test_the_notes_name_a_scheduler_of_hami_whose_bindings_do_not_reach_the_webhook_until_it_is_added(
    helm: Helm, control_plane: ControlPlane, namespace: str, account: str
) -> None:
    """It is known by the Service of HAMi's webhook."""
    place, _, name = account.partition("/")
    # Of no pod: other tests share this control plane.
    rule = {"apiGroups": ["none.invalid"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": "vgpu.hami.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": name, "namespace": place, "path": "/webhook"}},
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "rules": [rule],
    }
    registered = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": f"{place}-webhook"},
        "webhooks": [webhook],
    }
    assert apply(control_plane, registered).status_code == 201
    added = f"--set=admission.bindings.schedulers={{{account}}}"
    release = Release(helm, control_plane, namespace)
    try:
        notes, later = (release.run("install", str(CHART), "--dry-run=server", *more) for more in ([], [added]))
    finally:
        request(control_plane, "DELETE", path_of(registered))
    missing = account.startswith("gpu-tools")
    assert ("BINDINGS OF HAMi DO NOT REACH IT" in notes) is missing
    assert (f'admission.bindings.schedulers: "{account}"' in notes) is missing
    assert "DO NOT REACH" not in later

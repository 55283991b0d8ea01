"""What tools that apply manifests again and again do to an installation: kubectl at a real API server stands for them.

The manifest is that of ``deploy/install.yaml`` for a namespace of the test. Between two rounds the webhook writes its
bundle and its certificates.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import AdmissionregistrationV1Api, CoreV1Api

from tests.chart.generated import CHART
from tests.chart.helm import VALUES, Helm, documents
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.kubectl import Kubectl
from tests.control_plane.manifests import find, path_of
from tests.control_plane.manifests import request as ask
from tests.go_programs.catalogue import KUBECTL
from tests.go_programs.left_out import GetProgram
from webhook.words.names import CERTIFICATES_FIELD_MANAGER

pytestmark = pytest.mark.cluster

REGISTRATION = "gpu-topology-webhook"
TLS = "gpu-topology-webhook-tls"
BUNDLE = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJmakNDQVNXZ0F3SUJBZ0lCQVRBS0JnZ3Foa2pPUFFRREFqQUFNQjRYRFRJMg=="
SERVER_SIDE, CLIENT_SIDE = ("--server-side", "--field-manager=gitops"), ()

ALWAYS_SAID = {
    "poddisruptionbudget.policy/gpu-topology-place configured",
    "poddisruptionbudget.policy/gpu-topology-webhook configured",
    "secret/gpu-topology-webhook configured",
}
"""What client-side kubectl says although nothing changes: it always sends selectors of budgets and ``stringData``."""
CASES = ("", *(pytest.param(case, marks=pytest.mark.long) for case in ("ha", "taints", "claims")))


@dataclass(frozen=True)
class Repository:
    """A manifest, and kubectl to apply it."""

    control_plane: ControlPlane
    kubectl: Kubectl
    manifest: Path

    @property
    def objects(self) -> list[dict[str, Any]]:
        """What the manifest holds."""
        return documents(self.manifest.read_text(encoding="utf-8"))

    def apply(self, *how: str) -> list[str]:
        """What kubectl says of each object."""
        done = self.kubectl("apply", *how, "--filename", str(self.manifest))
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def stored(self) -> dict[str, Any]:
        """Every object as the API server has it, with its version."""
        return {path_of(one): find(self.control_plane, one) for one in self.objects}


@pytest.fixture
def repository(
    helm: Helm,
    control_plane: ControlPlane,
    namespace: str,
    go_program: GetProgram,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Repository]:
    """With the values of the file that a test names, else with those of the chart."""
    case = getattr(request, "param", "")
    values = [f"--values={VALUES / case}.yaml"] if case else []
    manifest = tmp_path / "install.yaml"
    manifest.write_text(helm.template("--no-hooks", *values, namespace=namespace), encoding="utf-8")
    kubectl = Kubectl(
        go_program(KUBECTL), control_plane.kubeconfig, tmp_path, plugins=tmp_path
    )  # with the PATH, for diff
    found = Repository(control_plane, kubectl, manifest)
    yield found
    for one in found.objects:
        ask(control_plane, "DELETE", path_of(one))


def work(control_plane: ControlPlane, namespace: str) -> None:
    """What the webhook writes into objects of the manifest."""
    with control_plane.client() as client:
        core, registrations = CoreV1Api(client), AdmissionregistrationV1Api(client)
        patch = [{"op": "add", "path": f"/webhooks/{n}/clientConfig/caBundle", "value": BUNDLE} for n in (0, 1)]
        registrations.patch_mutating_webhook_configuration(
            REGISTRATION, patch, field_manager=CERTIFICATES_FIELD_MANAGER
        )
        secret = core.read_namespaced_secret(TLS, namespace)
        secret.data = {"tls.crt": "eA=="}
        core.replace_namespaced_secret(TLS, namespace, secret, field_manager=CERTIFICATES_FIELD_MANAGER)


@pytest.mark.parametrize(
    "how", [SERVER_SIDE, pytest.param(CLIENT_SIDE, marks=pytest.mark.long)], ids=["server-side", "client-side"]
)
@pytest.mark.parametrize("repository", CASES, indirect=True)
def test_what_is_applied_twice_changes_nothing_although_the_webhook_wrote_in_between(
    repository: Repository, namespace: str, how: tuple[str, ...]
) -> None:
    repository.apply(*how)
    work(repository.control_plane, namespace)
    before = repository.stored()
    said = repository.apply(*how)
    assert len(said) == len(before) == len(repository.objects)
    assert repository.stored() == before  # with the version of each object, which every write changes
    if how == CLIENT_SIDE:
        assert {line for line in said if not line.endswith(" unchanged")} <= ALWAYS_SAID
    compared = repository.kubectl("diff", *how, "--filename", str(repository.manifest))
    assert (compared.returncode, compared.stdout) == (0, "")


@pytest.mark.long
def test_a_manifest_that_was_changed_is_no_longer_nothing(repository: Repository) -> None:
    repository.apply(*SERVER_SIDE)
    before = repository.stored()
    text = repository.manifest.read_text(encoding="utf-8")
    repository.manifest.write_text(text.replace("timeoutSeconds: 5", "timeoutSeconds: 4"), encoding="utf-8")
    compared = repository.kubectl("diff", *SERVER_SIDE, "--filename", str(repository.manifest))
    assert compared.returncode == 1
    assert REGISTRATION in compared.stdout
    repository.apply(*SERVER_SIDE)
    after = repository.stored()
    assert REGISTRATION in {path.rpartition("/")[2] for path in before if before[path] != after[path]}


def test_the_fields_that_the_webhook_writes_are_its_own_by_name(repository: Repository, namespace: str) -> None:
    """So ``managedFieldsManagers`` of Argo CD finds them."""
    repository.apply(*SERVER_SIDE)
    work(repository.control_plane, namespace)
    for path, one in repository.stored().items():
        owned = [entry for entry in one["metadata"]["managedFields"] if entry["manager"] == CERTIFICATES_FIELD_MANAGER]
        assert bool(owned) is path.endswith((f"/mutatingwebhookconfigurations/{REGISTRATION}", f"/secrets/{TLS}"))


@pytest.mark.long
def test_helm_takes_over_what_was_applied_only_if_it_is_told_to_and_keeps_what_the_webhook_wrote(
    repository: Repository, helm: Helm, namespace: str
) -> None:
    repository.apply(*SERVER_SIDE)
    work(repository.control_plane, namespace)
    here = (f"--kubeconfig={repository.control_plane.kubeconfig}", f"--namespace={namespace}")
    order = ("upgrade", "--install", REGISTRATION, str(CHART), *here, "--set=image.tag=9.9.9")
    assert "cannot be imported into the current release" in helm.run(*order).stderr
    try:
        assert 'conflict with "gitops"' in helm.run(*order, "--take-ownership").stderr
        done = helm.run(*order, "--take-ownership", "--force-conflicts")
        assert done.returncode == 0, done.stderr
        stored = {(one["kind"], one["metadata"]["name"]): one for one in repository.stored().values()}
        hooks = stored["MutatingWebhookConfiguration", REGISTRATION]["webhooks"]
        assert [hook["clientConfig"]["caBundle"] for hook in hooks] == [BUNDLE, BUNDLE]
        assert stored["Secret", TLS]["data"] == {"tls.crt": "eA=="}
        (container,) = stored["Deployment", REGISTRATION]["spec"]["template"]["spec"]["containers"]
        assert container["image"].endswith(":9.9.9")
    finally:
        helm.run("uninstall", REGISTRATION, *here, "--no-hooks")

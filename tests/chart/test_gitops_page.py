"""The examples of docs/gitops.md: their values render, and they name what the programs really write."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.generated import ROOT
from tests.chart.helm import RELEASE, Helm, documents, pick
from tests.chart.rendered import PLANNER, WEBHOOK, pod_template
from webhook.decisions.configuration import CertificateSettings
from webhook.words.names import CERTIFICATES_FIELD_MANAGER

pytestmark = pytest.mark.cluster

PAGE = (ROOT / "docs" / "gitops.md").read_text(encoding="utf-8")
SETTINGS = CertificateSettings()


def examples() -> dict[str, dict[str, Any]]:
    """The objects of the page by their kinds."""
    blocks: Iterator[str] = (block[1] for block in re.finditer(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    found = [one for block in blocks for one in documents(block)]
    return {one["kind"]: one for one in found}


def test_the_page_has_an_example_of_each_tool() -> None:
    assert examples().keys() == {"Application", "GitRepository", "HelmRelease"}


@pytest.mark.parametrize("tool", ["Application", "HelmRelease"])
def test_the_values_of_the_example_render_the_chart(helm: Helm, tmp_path: Path, tool: str) -> None:
    spec = examples()[tool]["spec"]
    is_argo = tool == "Application"
    source = spec["source"] if is_argo else spec["chart"]["spec"]
    assert (ROOT / (source["path"] if is_argo else source["chart"]) / "Chart.yaml").exists()
    assert (source["helm"]["releaseName"] if is_argo else spec["releaseName"]) == RELEASE
    values = tmp_path / "values.json"
    values.write_text(json.dumps(source["helm"]["valuesObject"] if is_argo else spec["values"]), encoding="utf-8")
    namespace = spec["destination"]["namespace"] if is_argo else spec["targetNamespace"]
    objects = documents(helm.template(f"--values={values}", namespace=namespace))
    for maker in (WEBHOOK, PLANNER):
        (container,) = pod_template(objects, maker)["spec"]["containers"]
        assert container["image"].startswith("registry.example.com/gpu-topology-webhook:")


def test_argo_cd_ignores_what_the_webhook_writes_and_nothing_else(helm: Helm) -> None:
    objects = helm.objects()
    ignored = examples()["Application"]["spec"]["ignoreDifferences"]
    assert [one["managedFieldsManagers"] for one in ignored] == [[CERTIFICATES_FIELD_MANAGER]] * 2
    names = {(one["kind"], one["name"]) for one in ignored}
    assert names == {
        ("MutatingWebhookConfiguration", SETTINGS.webhook_configuration),
        ("Secret", SETTINGS.secret),
    }
    assert all(pick(objects, *name) for name in names)


def test_flux_ignores_the_same_and_names_every_webhook_of_the_registration(helm: Helm) -> None:
    registration = pick(helm.objects(), "MutatingWebhookConfiguration")
    bundles, data = examples()["HelmRelease"]["spec"]["driftDetection"]["ignore"]
    numbers = range(len(registration["webhooks"]))
    assert bundles["paths"] == [f"/webhooks/{number}/clientConfig/caBundle" for number in numbers]
    assert (bundles["target"]["name"], data["target"]["name"]) == (SETTINGS.webhook_configuration, SETTINGS.secret)


def test_the_same_values_give_the_same_manifests(helm: Helm) -> None:
    for case in ("", "everything", "cert-manager"):
        files = [f"--values={ROOT / 'tests' / 'chart' / 'values' / case}.yaml"] if case else []
        assert helm.template(*files) == helm.template(*files)

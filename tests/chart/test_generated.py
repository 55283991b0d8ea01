"""What is generated for the chart is in step with the code, and every value is explained."""

import re
from pathlib import Path

import pytest
import yaml

from tests.chart.generated import CHART, GENERATED, documented_values
from webhook import __version__
from webhook.decisions.configuration import DEFAULT_REMAP_IMAGE
from webhook.words import names

REMEDY = "is stale; run: make chart"
OWN_NAMES = {value.rstrip(".") for value in vars(names).values() if isinstance(value, str)}


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_what_is_generated_is_in_step_with_the_code(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == GENERATED[path](), f"{path} {REMEDY}"


def test_chart_and_program_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_what_artifact_hub_reads_is_text_and_names_the_images_of_the_chart() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    annotations = chart["annotations"]
    assert all(key.startswith("artifacthub.io/") and isinstance(value, str) for key, value in annotations.items())
    images = yaml.safe_load(annotations["artifacthub.io/images"])
    assert [image["image"] for image in images] == [
        f"{values['image']['repository']}:{__version__}",
        f"{DEFAULT_REMAP_IMAGE}:{__version__}",
    ]
    assert all(image["platforms"] == ["linux/amd64", "linux/arm64"] for image in images)
    links = {link["name"]: link["url"] for link in yaml.safe_load(annotations["artifacthub.io/links"])}
    assert links.keys() == {"support", "documentation", "changelog"}
    assert all(url.startswith(chart["home"]) for url in links.values())


def test_every_value_is_explained_by_the_comment_above_it() -> None:
    for value in documented_values():
        assert value.meaning.endswith("."), value.key
        assert value.meaning[0].isupper(), value.key


def test_names_in_templates_are_those_of_the_code() -> None:
    written = "".join(path.read_text(encoding="utf-8") for path in sorted((CHART / "templates").rglob("*.*")))
    found = set(re.findall(r"gpu\.topology/[a-z-]*[a-z]", written))
    assert "gpu.topology/injection" in found
    assert found - OWN_NAMES == set()

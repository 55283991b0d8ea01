"""What ``pipx`` or ``uvx`` make of the wheel: every command works that needs neither a cluster nor a GPU."""

import email
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import yaml

from tests.chart.generated import ROOT
from tests.wheel.conftest import Environment
from webhook import __version__

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKLOADS = ROOT / "examples" / "workloads"


def test_it_has_the_code_the_types_the_examples_and_the_page_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = set(archive.namelist())
    code = {str(path.relative_to(ROOT)) for name in ("webhook", "certs") for path in (ROOT / name).rglob("*.py")}
    marks = {"webhook/py.typed", "certs/py.typed"}
    page = {
        str(path.relative_to(ROOT))
        for folder in ("page/assets", "page/templates", "drawings/templates")
        for path in (ROOT / "webhook" / "insight" / folder).iterdir()
    }
    examples = {
        f"webhook/cli/demo/packaged_examples/{path.relative_to(ROOT / 'examples')}"
        for path in (ROOT / "examples").rglob("*")
        if path.is_file()
    }
    of_itself = {name for name in found if name.startswith(f"gpu_topology_webhook-{__version__}.dist-info/")}
    assert found - of_itself == code | marks | examples | page


def test_it_says_who_it_is_and_where_it_comes_from(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert (metadata["Name"], metadata["Version"]) == (PROJECT["name"], __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    urls = dict(value.split(", ", 1) for value in metadata.get_all("Project-URL", []))
    assert urls == PROJECT["urls"]
    assert urls.keys() == {"Homepage", "Documentation", "Changelog", "Issues"}


def test_the_code_that_runs_is_that_of_the_wheel(installed: Environment) -> None:
    found = installed.python("import certs, webhook; print(certs.__file__); print(webhook.__file__)").split()
    assert all(Path(file).is_relative_to(installed.directory) for file in found)


def test_the_version_is_that_of_the_code(installed: Environment) -> None:
    done = installed.run("version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


def test_it_has_help(installed: Environment) -> None:
    done = installed.run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage" in done.stdout.lower()


def test_a_workload_from_standard_input_is_injected(installed: Environment) -> None:
    text = (WORKLOADS / "01-nvlink-test-pod.yaml").read_text(encoding="utf-8")
    done = installed.run("inject", "-f", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    pod = yaml.safe_load(done.stdout)
    assert "gpu.topology/injected" in pod["metadata"]["annotations"]


def test_a_pod_from_standard_input_is_explained(installed: Environment) -> None:
    text = (ROOT / "examples" / "state" / "pods" / "train.yaml").read_text(encoding="utf-8")
    done = installed.run("explain", "-f", "-", stdin=text)
    assert done.returncode in {0, 1, 3}  # 1: no NVLink, 3: not known
    assert done.stderr == ""
    assert "ml-workloads/train" in done.stdout


def test_the_page_is_written_with_its_style_and_its_drawings(installed: Environment) -> None:
    done = installed.run("page", "-o", "html", "--state", str(ROOT / "examples" / "state"))
    assert (done.returncode, done.stderr) == (0, "")
    assert ":root {" in done.stdout
    assert 'data-gpu="7"' in done.stdout


def test_the_demo_brings_its_examples_and_says_that_it_has_no_driver(installed: Environment) -> None:
    done = installed.run("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "20 pods of 16 workloads went through the webhook over TLS." in done.stdout
    assert "Only a checkout has one: 'make demo' compiles it." in done.stdout
    assert "3 pods started with their own cards; with one card swapped, pd-prefill-0 does not." in done.stdout


def test_what_only_a_checkout_has_is_said(installed: Environment) -> None:
    done = installed.run("demo", "--driver", "nowhere")
    assert done.returncode == 1
    assert done.stderr == (
        "gpu-topology: --driver nowhere: expected a stand-in for a driver, as 'make demo' makes, found none\n"
    )

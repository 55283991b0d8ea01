"""Workflows are well-formed, run only what is pinned, may do little, and publish under the names of the chart."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.generated import CHART, ROOT
from tests.go_programs.catalogue import ACTIONLINT
from tests.go_programs.left_out import GetProgram
from webhook import __version__
from webhook.decisions.configuration import DEFAULT_REMAP_IMAGE

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
WRITES = {
    "image": {"packages", "id-token"},
    "chart": {"packages", "id-token"},
    "pypi": {"id-token"},
    "assets": {"contents"},
}
"""What the jobs of a release may write, by their names; all others read the repository, no more."""


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return document


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read(path)["jobs"]
    return found


def zizmor(directory: Path) -> subprocess.CompletedProcess[str]:
    """As ``make check`` calls it."""
    program = Path(sys.executable).with_name("zizmor")
    command = [str(program), "--offline", "--quiet", "--strict-collection", str(directory)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_to_a_commit_and_its_version_stands_beside_it(path: Path) -> None:
    used = re.findall(r"uses: (?!\./)(.*)", path.read_text(encoding="utf-8"))
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_an_action_has_one_commit_in_all_workflows() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    pins = set(re.findall(r"uses: (\S+)@([0-9a-f]{40} # \S+)", text))
    assert len({action for action, _ in pins}) == len(pins)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_job_may_do_what_it_says_and_nothing_by_default(path: Path) -> None:
    assert read(path)["permissions"] == {}
    for name, job in jobs(path).items():
        writes = WRITES.get(name, set()) if path == RELEASE else set()
        assert {scope for scope, level in job["permissions"].items() if level != "read"} == writes, name


def test_a_workflow_that_takes_an_action_by_its_tag_is_found(tmp_path: Path) -> None:
    assert zizmor(ROOT / ".github").returncode == 0
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    bent = re.sub("@[0-9a-f]{40} # ", "@", RELEASE.read_text(encoding="utf-8"))
    (tmp_path / ".github" / "workflows" / "release.yml").write_text(bent, encoding="utf-8")
    done = zizmor(tmp_path)
    assert done.returncode != 0
    assert "unpinned-uses" in done.stdout + done.stderr


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.parametrize(
    ("written", "bent", "said"),
    [
        ("", "", ""),
        ("needs.version.outputs.version", "needs.version.outputs.versoin", 'property "versoin" is not defined'),
        ("needs: [files, image]", "needs: [files, images]", 'job "pypi" needs job "images" which does not exist'),
        ("runs-on: ubuntu-24.04", "run-on: ubuntu-24.04", 'unexpected key "run-on"'),
    ],
    ids=["as it is", "output", "job", "key"],
)
def test_expressions_jobs_and_keys_are_those_that_exist(
    go_program: GetProgram, tmp_path: Path, written: str, bent: str, said: str
) -> None:
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    for path in WORKFLOWS:
        text = path.read_text(encoding="utf-8")
        (tmp_path / ".github" / "workflows" / path.name).write_text(text.replace(written, bent) if written else text)
    (tmp_path / ".git").mkdir()
    command = [str(go_program(ACTIONLINT)), "-no-color", "-shellcheck=", "-pyflakes="]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said in done.stdout
    assert (done.returncode == 0) is (not said), done.stdout


def test_a_release_publishes_under_the_names_that_the_chart_and_the_documents_have() -> None:
    names = read(RELEASE)["env"]
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert names["IMAGE"] == values["image"]["repository"]
    assert names["REMAP_IMAGE"] == DEFAULT_REMAP_IMAGE
    chart = f"{names['CHARTS']}/{yaml.safe_load((CHART / 'Chart.yaml').read_text(encoding='utf-8'))['name']}"
    assert chart != names["IMAGE"]  # in a registry both are tags of a repository
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    assert names["IMAGE"] in page
    assert names["REMAP_IMAGE"] in page
    assert chart in page


def test_both_images_are_built_alike_tried_and_signed() -> None:
    steps = jobs(RELEASE)["image"]["steps"]
    builds = {step["with"]["target"]: step["with"] for step in steps if "build-push-action" in step.get("uses", "")}
    assert builds.keys() == {"webhook", "remap"}
    names = {"webhook": "IMAGE", "remap": "REMAP_IMAGE"}
    for target, build in builds.items():
        assert build["tags"] == f"${{{{ env.{names[target]} }}}}:${{{{ needs.version.outputs.version }}}}"
        assert build["platforms"] == "linux/amd64,linux/arm64"
        assert (build["push"], build["sbom"], build["provenance"]) == (True, True, "mode=max")
    assert builds["webhook"]["build-args"] == builds["remap"]["build-args"]
    tried, signed = (step for step in steps if "run" in step)
    for step in (tried, signed):
        assert step["env"] == {
            "DIGEST": "${{ steps.webhook.outputs.digest }}", "REMAP_DIGEST": "${{ steps.remap.outputs.digest }}"
        }  # fmt: skip
        assert '"$IMAGE@$DIGEST"' in step["run"]
        assert '"$REMAP_IMAGE@$REMAP_DIGEST"' in step["run"]
    assert signed["run"].startswith("cosign sign --yes --recursive ")


def test_nothing_is_published_before_the_tests_and_no_chart_before_its_image() -> None:
    needs = {name: {job.get("needs")} if isinstance(job.get("needs"), str) else set(job.get("needs", []))
             for name, job in jobs(RELEASE).items()}  # fmt: skip
    assert needs["test"] == {"version"}
    assert {"version", "test"} <= needs["image"]
    assert "image" in needs["chart"] & needs["pypi"] & needs["assets"]
    assert "test" in needs["files"]
    assert jobs(RELEASE)["version"]["if"] == "github.repository == 'gpu-topology-webhook/gpu-topology-webhook'"


def test_the_version_of_a_release_is_that_of_the_code() -> None:
    for arguments in ([], [f"v{__version__}"]):
        done = subprocess.run(
            [ROOT / ".ci" / "version", *arguments], cwd="/", capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("tag", [__version__, f"v{__version__}1", "v0.0.0", ""])
def test_a_tag_of_another_version_is_no_release(tag: str) -> None:
    done = subprocess.run([ROOT / ".ci" / "version", tag], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"expected the tag v{__version__}, the version in webhook/__init__.py, found {tag}\n"


def test_the_tests_of_ci_have_the_previous_commit() -> None:
    """Without it ``.ci/run`` would leave out the tests of two versions beside each other, and pass."""
    steps = [job["steps"] for path in WORKFLOWS for job in jobs(path).values() if "steps" in job]
    running = [found for found in steps if any(step.get("run") == ".ci/run" for step in found)]
    assert len(running) == 1
    for found in running:
        (checkout,) = (step for step in found if step.get("uses", "").startswith("actions/checkout@"))
        assert checkout["with"]["fetch-depth"] >= 2


def test_what_workflows_run_is_there() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    scripts = set(re.findall(r"(?<![\w/])\.ci/\w+", text))
    assert scripts == {".ci/run", ".ci/version"}
    assert all((ROOT / script).is_file() for script in scripts)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"run: make ([\w-]+)", text):
        assert f"\n{target}:" in makefile

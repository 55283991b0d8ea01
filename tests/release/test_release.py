"""The steps of a release that need no network: the same files give the same bytes, and a failure is never a success."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.chart.helm import NAMESPACE, Helm
from tests.release.layout import pull, push
from tests.release.rehearsal import Row, rehearse, show
from tests.release.steps import NotPossible, chart, digests, python_package
from webhook import __version__


@pytest.mark.long
def test_wheel_and_sdist_of_checkouts_with_other_times_are_the_same_bytes(tmp_path: Path) -> None:
    rows = rehearse(tmp_path, {"python": python_package})
    assert [(Path(row.what).suffix, row.verdict) for row in rows] == [(".whl", "same"), (".gz", "same")]
    assert all(row.size > 100_000 for row in rows)


@pytest.mark.long
def test_other_bytes_a_failure_and_what_is_not_possible_are_told_apart(tmp_path: Path) -> None:
    def place(source: Path, release: Path) -> None:
        (release / "place").write_text(str(source))

    def half(_: Path, release: Path) -> None:
        (release / "half").mkdir()
        (release / "half" / "file").write_text("made before it failed")
        raise RuntimeError("disk full")

    def absent(_: Path, __: Path) -> None:
        raise NotPossible("no engine")

    rows = rehearse(tmp_path, {"place": place, "half": half, "absent": absent})
    assert [(row.what, row.verdict, row.why) for row in rows] == [
        ("place", "DIFFERENT", ""),
        ("half", "FAILED", "disk full"),
        ("absent", "not tried", "no engine"),
    ]


def test_the_table_says_what_no_rehearsal_tries() -> None:
    console = Console(file=StringIO(), width=200)
    with console.capture() as captured:
        show([Row("a", 1, "ff" * 32)], console)
    text = captured.get()
    assert "same" in text
    assert "signatures" in text
    assert "passed" not in text


@pytest.mark.cluster
def test_the_packaged_chart_is_the_same_twice_and_renders_from_a_layout_as_the_folder_does(
    helm: Helm, tmp_path: Path
) -> None:
    assert [row.verdict for row in rehearse(tmp_path, {"chart": chart})] == ["same"]
    (package,) = (tmp_path / "1" / "chart").glob("*.tgz")
    push(package, tmp_path / "layout")
    pulled = tmp_path / "pulled.tgz"
    pulled.write_bytes(pull(tmp_path / "layout", __version__))
    given = (f"--namespace={NAMESPACE}", "--kube-version=1.36")
    done = helm.run("template", "gpu-topology-webhook", pulled, *given)
    assert (done.returncode, done.stdout) == (0, helm.template())
    with pytest.raises(ValueError, match=r"expected one manifest of version 9\.9\.9, found 0"):
        pull(tmp_path / "layout", "9.9.9")
    (blob,) = (one for one in (tmp_path / "layout").rglob("*") if one.is_file() and one.stat().st_size > 20_000)
    blob.write_bytes(blob.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="is not what its digest and its size say"):
        pull(tmp_path / "layout", __version__)
    assert digests(tmp_path / "1")

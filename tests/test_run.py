"""What a run of the tests shows at its end, and how the processes of a run share the tests."""

from pathlib import Path

import pytest

from tests.go_programs.run_apart import ROOT, run_apart
from tests.workers import unit

MEASURES = """
def test_that_measures(show_figures):
    with show_figures():
        print("three figures")

def test_that_measures_nothing(show_figures):
    print("in vain")
"""


@pytest.mark.parametrize(
    "options", [(), pytest.param(("-n", "2"), marks=pytest.mark.long)], ids=["one process", "two workers"]
)
def test_figures_are_shown_at_the_end_of_the_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    file = tmp_path / "test_measures.py"
    file.write_text(MEASURES)
    done = run_apart(tmp_path, "-c", str(ROOT / "pyproject.toml"), "-p", "tests.figures", *options, str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("three figures") == 1
    assert done.stdout.index("= figures =") < done.stdout.index("three figures") < done.stdout.index("2 passed")
    assert "in vain" not in done.stdout


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("tests/decisions/admit/test_shm.py::test_a[one]", "tests/decisions/admit/test_shm.py"),
        ("tests/control_plane/test_sizes.py::test_a[2.9.0]", "tests/control_plane/test_sizes.py"),
        ("tests/control_plane/hami/test_peers.py::test_a[2.9.0-init]", "tests/control_plane/hami/2.9.0"),
        ("tests/control_plane/hami/test_peers.py::test_a[2.10.0]", "tests/control_plane/hami/2.10.0"),
        ("tests/control_plane/hami/test_faults.py::test_a[2.9.0]", "tests/control_plane/hami/2.9.0"),
        ("tests/control_plane/hami/test_for_people.py::test_a", "tests/control_plane/hami/2.10.0"),
        ("tests/control_plane/claims/test_states.py::test_a[1.37]", "tests/control_plane/claims/1.37"),
        ("tests/control_plane/claims/test_states.py::test_a[1.36]", "tests/control_plane/claims/1.36"),
        ("tests/control_plane/test_taints.py::test_a", "tests/control_plane/more kinds"),
    ],
)
def test_files_stay_whole_and_tests_that_share_a_cluster_with_hami_together(test: str, expected: str) -> None:
    assert unit(test) == expected


def test_of_cluster_tests_only_modules_that_say_so_are_imported(tmp_path: Path) -> None:
    (tmp_path / "test_others.py").write_text("raise AssertionError('imported')\n")
    (tmp_path / "test_cluster.py").write_text("import pytest\n\n@pytest.mark.cluster\ndef test_a():\n    pass\n")
    options = ("-c", str(ROOT / "pyproject.toml"), "-p", "tests.marked", str(tmp_path))
    assert "1 passed" in run_apart(tmp_path, *options, "-m", "cluster").stdout
    assert "AssertionError: imported" in run_apart(tmp_path, *options).stdout


def test_a_module_whose_tests_have_the_mark_and_that_does_not_say_so_is_refused(tmp_path: Path) -> None:
    text = "import pytest\nMARK = getattr(pytest.mark, 'cluster')\n\n@MARK\ndef test_a():\n    pass\n"
    (tmp_path / "test_hidden.py").write_text(text)
    done = run_apart(tmp_path, "-c", str(ROOT / "pyproject.toml"), "-p", "tests.marked", str(tmp_path))
    assert done.returncode != 0
    assert "test_hidden.py: expected pytest.mark.cluster in the text" in done.stdout + done.stderr

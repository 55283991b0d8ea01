"""What a run of the tests shows at its end, and how the processes of a run share the tests."""

from pathlib import Path

import pytest

from tests.programs.run_apart import ROOT, run_apart
from tests.workers import unit

MEASURES = """
def test_that_measures(show_figures):
    with show_figures():
        print("three figures")

def test_that_measures_nothing(show_figures):
    print("in vain")
"""


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two workers"])
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
        ("tests/admit/test_shm.py::test_a[one]", "tests/admit/test_shm.py"),
        ("tests/cluster/test_sizes.py::test_a[2.9.0]", "tests/cluster/test_sizes.py"),
        ("tests/cluster/hami/test_peers.py::test_a[2.9.0-init]", "tests/cluster/hami/2.9.0"),
        ("tests/cluster/hami/test_peers.py::test_a[2.10.0]", "tests/cluster/hami/2.10.0"),
        ("tests/cluster/hami/test_faults.py::test_a[2.9.0]", "tests/cluster/hami/2.9.0"),
        ("tests/cluster/hami/test_for_people.py::test_a", "tests/cluster/hami/2.10.0"),
    ],
)
def test_files_stay_whole_and_tests_that_share_a_cluster_with_hami_together(test: str, expected: str) -> None:
    assert unit(test) == expected

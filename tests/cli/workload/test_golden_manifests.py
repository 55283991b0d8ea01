"""Manifests as people have them, and what inject makes and says of them; written by hand."""

from pathlib import Path

import pytest

from tests.judge import load_optional, policy
from webhook.cli.workload import Injection, inject_manifest
from webhook.words.outcome import SENTENCES

CASES = sorted((Path(__file__).parents[2] / "cases" / "manifests").iterdir())


def read(path: Path) -> str:
    return path.read_bytes().decode()  # line ends as they are


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


def injection(case: Path) -> Injection:
    (before,) = case.glob("before.*")
    return inject_manifest(read(before), before.name, policy(), None)


def test_the_manifest_comes_out_as_written_by_hand(case: Path) -> None:
    expected = next(case.glob("after.*"), None) or next(case.glob("before.*"))
    assert injection(case).text == read(expected)


def test_the_notes_are_those_written_by_hand(case: Path) -> None:
    wanted = load_optional(case / "notes.yaml", None)
    done = injection(case)
    if wanted is None:  # what a profile does is said elsewhere
        assert all(note.startswith("warning: ") and "profile exclusive" in note for note in done.notes())
    else:
        sentence = SENTENCES[done.templates[0].outcome.reason] if done.templates else ""
        assert list(done.notes()) == [note.replace("SENTENCE", sentence) for note in wanted]


def test_injecting_what_came_out_changes_nothing(case: Path) -> None:
    text = injection(case).text
    assert inject_manifest(text, "again", policy(), None).text == text

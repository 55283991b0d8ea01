"""The golden cases of claims are what real clusters have."""

import json
from pathlib import Path

import pytest

from tests.control_plane.claims.__main__ import FOLDER
from tests.control_plane.claims.cases import CASES, documents, played
from tests.control_plane.claims.cluster import ClaimsCluster


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.parametrize("name", CASES)
def test_a_golden_case_is_what_a_real_cluster_has(claims_cluster: ClaimsCluster, name: str) -> None:
    with played(claims_cluster, CASES[name]) as state:
        found = documents(state)
    for file, text in found.items():
        kept = (FOLDER / name / file).read_text(encoding="utf-8")
        assert json.loads(text) == json.loads(kept), f"{name}/{file}"


def test_every_golden_case_has_its_files_and_nothing_else_is_there() -> None:
    files = {path.relative_to(FOLDER) for path in FOLDER.rglob("*") if path.is_file()}
    expected = {Path(name, file) for name in CASES for file in ("pod.json", "claims.json", "slices.json")}
    assert files == expected | {Path("README.md")}

"""What cluster.yaml of a state directory says."""

from pathlib import Path

import pytest

from webhook.cluster.files.directory import load_directory
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.words.errors import ManifestError
from webhook.words.version import Version


def facts(root: Path, text: str) -> ClusterFacts:
    (root / "cluster.yaml").write_text(text)
    return load_directory(root).cluster()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ClusterFacts()),
        ('hamiVersion: "2.9.0"', ClusterFacts(hami=Version(2, 9))),
        ("claimedResources: []", ClusterFacts(claimed=frozenset())),
        ("claimedResources: [nvidia.com/gpu, a]", ClusterFacts(claimed=frozenset({"nvidia.com/gpu", "a"}))),
        ("hamiDra: true", ClusterFacts(has_hami_dra=True)),
    ],
)
def test_every_fact_is_optional(tmp_path: Path, text: str, expected: ClusterFacts) -> None:
    assert facts(tmp_path, text) == expected


@pytest.mark.parametrize("text", ["claimedResources: nvidia.com/gpu", "claimedResources: [1]", "hamiDra: yes please"])
def test_a_fact_of_another_type_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ManifestError, match=r"cluster\.yaml: .*(claimedResources|hamiDra)"):
        facts(tmp_path, text)


def test_what_is_configured_counts_more() -> None:
    found = ClusterFacts(hami=Version(2, 9), claimed=frozenset({"nvidia.com/gpu"}), has_hami_dra=True)
    configured = ClusterFacts(kubernetes=Version(1, 36), claimed=frozenset())
    assert found.overruled_by(configured) == ClusterFacts(
        hami=Version(2, 9), kubernetes=Version(1, 36), claimed=frozenset(), has_hami_dra=True
    )
    assert found.overruled_by(ClusterFacts()) is found

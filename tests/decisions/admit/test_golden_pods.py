"""Each folder of tests/cases/pods is a pod, what surrounds it, and what must come of it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.judge import HAMI_2_9, TEAM_A, judge, load, load_optional, policy
from tests.pods import Manifest
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.objects.claims import ClaimSpec
from webhook.objects.pod import Namespace
from webhook.words.version import Version

CASES = Path(__file__).parents[2] / "cases" / "pods"
NAMES = sorted(path.name for path in CASES.iterdir())


def namespace_of(case: Path) -> Namespace:
    manifest = load_optional(case / "namespace.yaml", None)
    if manifest is None:
        return TEAM_A
    metadata = manifest["metadata"]
    return Namespace(metadata["name"], metadata.get("labels", {}), metadata.get("annotations", {}))


def cluster_of(case: Path) -> ClusterFacts:
    facts: dict[str, Any] | None = load_optional(case / "cluster.yaml", None)
    if facts is None:
        return HAMI_2_9
    return ClusterFacts(
        hami=Version.parse(facts["hamiVersion"], source="case"),
        kubernetes=Version.parse(facts.get("kubernetesVersion", "1.33.2"), source="case"),
        claimed=frozenset(facts["claimedResources"]) if "claimedResources" in facts else None,
        has_hami_dra=facts.get("hamiDra", False),
        has_planner=facts.get("planner", False),
    )


def specs_of(pod: Manifest, objects: list[Manifest]) -> dict[str, ClaimSpec | None]:
    """The specs of ResourceClaims and templates, by the entries of the pod that name them."""
    claims = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "ResourceClaim"}
    templates = {each["metadata"]["name"]: each["spec"]["spec"] for each in objects if each["kind"] != "ResourceClaim"}
    found: dict[str, ClaimSpec | None] = {}
    for entry in pod["spec"].get("resourceClaims") or []:
        spec = claims.get(entry.get("resourceClaimName")) or templates.get(entry.get("resourceClaimTemplateName"))
        found[entry["name"]] = msgspec.convert(spec, ClaimSpec) if spec else None
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_pod_comes_out_as_written_by_hand(name: str) -> None:
    case = CASES / name
    settings: dict[str, Any] = load_optional(case / "config.yaml", {})
    pod = load(case / "pod.yaml")
    specs = specs_of(pod, load_optional(case / "claims.yaml", []))
    outcome, after = judge(pod, namespace_of(case), cluster_of(case), policy(**settings), claim_specs=specs)

    wanted = load(case / "outcome.yaml")
    assert (outcome.kind, outcome.reason) == (wanted["kind"], wanted["reason"]), outcome.message
    for fragment in load_optional(case / "warnings.yaml", []):
        assert any(fragment in warning for warning in outcome.warnings), outcome.warnings
    if (case / "refused.yaml").exists():
        refused = load(case / "refused.yaml")
        assert outcome.reason == refused["reason"]
        for fragment in refused["message"]:
            assert fragment in outcome.message
    else:
        assert after == load(case / "expected.yaml")


def test_there_are_cases() -> None:
    assert len(NAMES) >= 40

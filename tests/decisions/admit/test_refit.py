"""``hami.io/numa-alignment``, with which HAMi may change the allocation after the Binding."""

import msgspec
import pytest

from tests.judge import HAMI_2_9, TEAM_A, judge, policy
from tests.pods import ALL_ALLOWED, Manifest, container, pod
from webhook.decisions.cluster_facts import ClusterFacts

PLANNER = msgspec.structs.replace(HAMI_2_9, has_planner=True)
CODES = ("GT245", "GT249", "GT513")


def aligned(word: str, *containers: Manifest, **annotations: str) -> Manifest:
    """A pod whose own annotations have this alignment."""
    return pod(*containers, annotations={"hami.io/numa-alignment": word, **annotations})


def found(manifest: Manifest, cluster: ClusterFacts = HAMI_2_9, mode: str = "off") -> list[str]:
    outcome, _ = judge(manifest, TEAM_A, cluster, policy(placement={"mode": mode}))
    return [code for warning in outcome.warnings if (code := warning.partition(":")[0]) in CODES]


def test_a_pod_that_is_left_alone_is_not_warned() -> None:
    assert found(aligned("strict", **{"gpu.topology/inject": "false"})) == []


def test_a_pod_of_another_scheduler_is_not_warned() -> None:
    of_volcano = container(resources={"limits": {"volcano.sh/vgpu-number": "2"}})
    assert found(aligned("strict", of_volcano)) == []


@pytest.mark.parametrize(("word", "codes"), [("strict", ["GT245", "GT249"]), ("best-effort", ["GT249"])])
def test_a_pod_that_the_planner_will_pin_is_told_that_strict_may_fail_it(word: str, codes: list[str]) -> None:
    assert sorted(found(aligned(word), PLANNER, "on")) == codes
    assert found(aligned(word), PLANNER, "observe") == ["GT249"]


def test_observe_writes_nothing_and_refuses_nothing() -> None:
    manifest = aligned("strict", **{"gpu.topology/profile": "observe"})
    outcome, _ = judge(manifest, TEAM_A, HAMI_2_9, policy())
    assert (outcome.allowed, outcome.reason) == (True, "observed")


@pytest.mark.parametrize("profile", ["pod-peers", "node-peers"])
@pytest.mark.parametrize("word", ["best-effort", "strict"])
def test_the_peer_profiles_refuse_it(profile: str, word: str) -> None:
    manifest = aligned(word, **{"gpu.topology/profile": profile})
    outcome, _ = judge(manifest, ALL_ALLOWED, HAMI_2_9, policy())
    assert (outcome.allowed, outcome.reason) == (False, "contradicts-profile")
    assert outcome.message.startswith("GT513: ")
    without, _ = judge(aligned("none", **{"gpu.topology/profile": profile}), ALL_ALLOWED, HAMI_2_9, policy())
    assert without.allowed

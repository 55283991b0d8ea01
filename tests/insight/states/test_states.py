"""Every command has the same word for a pod, and it is the one that was written by hand."""

import pytest

from tests.insight.states.reading import State, known_pod, live, snapshot, states, team
from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze.analyzers import analyze
from webhook.insight.explain.pods import PodReports
from webhook.insight.overview.picture import overview


def cluster(state: State) -> Snapshot:
    namespace = team(state.namespace)
    return snapshot(state, [live(each, each.manifest(), namespace) for each in (state, *state.others)], namespace)


@pytest.mark.parametrize("state", states(), ids=lambda state: state.name)
def test_every_command_says_what_was_written_by_hand(state: State) -> None:
    found = cluster(state)
    name = state.manifest()["metadata"]["name"]
    report = PodReports(found).of(known_pod(found, name))
    judged = analyze(found)
    said = judged.pods[f"team-a/{name}"]
    (shown,) = (pod for pod in overview(found, judged).pods if pod.name == name)
    words = {
        "explain": (str(report.judgement.nvlink), report.judgement.code),
        "analyze": (str(said.nvlink), said.code),
        "status": (str(shown.nvlink), shown.decided_by),
    }
    assert words == dict.fromkeys(words, (state.word, state.code)), report.judgement

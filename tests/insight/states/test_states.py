"""Every command has the same word for a pod, and it is the one that was written by hand."""

import msgspec
import pytest

from tests.insight.states.reading import NODE, Scene, State, known_pod, live, snapshot, states, team
from webhook.cluster.snapshot.model import Snapshot
from webhook.insight.analyze.analyzers import analyze
from webhook.insight.explain.pods import PodReports, ToldNode
from webhook.insight.explain.remedies import CHANGES
from webhook.insight.overview.picture import overview
from webhook.words.catalogue.index import entries
from webhook.words.catalogue.remedies import LISTED, Remedy, remedy_of


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


ROUNDS = 3


REMEDIED = [each for each in states() if each.word in {"no", "unknown"} and not each.limit]


@pytest.mark.parametrize("state", REMEDIED, ids=lambda state: state.name)
def test_the_first_remedy_ends_its_finding_and_within_three_rounds_the_pod_is_well(state: State) -> None:
    """Nobody applies a remedy to a pod that runs: the changed pod is created, admitted and scheduled anew."""
    scene = Scene.of(state)
    for _ in range(ROUNDS):
        found = scene.judgement()
        if (str(found.nvlink), found.code) == (state.ends.word, state.ends.code):
            break
        change = found.change
        assert change is not None, found
        assert all(operation.path.find("CUDA_DISABLE_CONTROL") < 0 for operation in change.patch), "by the webhook only"
        before, scene = scene, scene.changed(change)
        assert (scene.state, scene.namespace) != (before.state, before.namespace) or scene.manifest != before.manifest
        assert scene.admission().allowed, scene.admission().message
        codes = {finding.code for finding in scene.report().findings if finding.fails}
        assert change.target is Remedy.NAMESPACE or found.code not in codes, found
    assert (str(scene.judgement().nvlink), scene.judgement().code) == (state.ends.word, state.ends.code)


def test_a_slice_is_never_without_hamis_library_where_no_webhook_is_seen() -> None:
    """Its limits are the library's; a pod of whole GPUs may switch it off."""
    (sliced,) = (each for each in states() if each.name == "a slice")
    (whole,) = (each for each in states() if each.name == "a pod that nobody prepared")
    assert Scene.of(sliced).judgement(shows_webhook=False).change is None
    change = Scene.of(whole).judgement(shows_webhook=False).change
    assert change is not None
    assert [operation.path for operation in change.patch] == ["/spec/containers/0/env/-"]


def test_a_change_as_data_is_of_an_entry_whose_remedy_is_one() -> None:
    kinds = {remedy_of(entries()[code]) for code in CHANGES}
    assert kinds == {Remedy.POD}


def test_every_code_of_a_kind_of_remedy_is_one_of_the_catalogue_and_of_one_kind() -> None:
    listed = [code for codes in LISTED for code in codes]
    assert len(listed) == len(set(listed))
    assert {code for code in listed if not entries()[code].fix} == set()


def test_ranks_are_looked_for_on_the_node_that_the_caller_names() -> None:
    (state,) = (each for each in states() if each.name == "two ranks of a job")
    namespace = team(state.namespace)
    waiting = live(msgspec.structs.replace(state, gpus=[]), state.manifest(), namespace)
    del waiting["metadata"]["annotations"]
    (other,) = state.others
    found = snapshot(state, [waiting, live(other, other.manifest(), namespace)], namespace)
    known = known_pod(found, state.manifest()["metadata"]["name"])
    reports = PodReports(found)
    assert [each.display_name for each in reports.evidence(known, ToldNode(NODE)).ranks] == [other.name]
    assert not reports.evidence(known, ToldNode("")).ranks
    assert not reports.evidence(known, ToldNode("elsewhere")).ranks

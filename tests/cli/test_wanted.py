"""How ``explain`` is told which pod is meant."""

import re

import pytest

from webhook.cluster.snapshot.pod_reference import POD, NoNameError, parse_wanted
from webhook.cluster.snapshot.workloads import label_selector
from webhook.words.errors import FormatError


@pytest.mark.parametrize(
    ("text", "option", "found"),
    [
        ("train", "", ("train", "", "pod")),
        ("train", "team-a", ("train", "team-a", "pod")),
        ("team-a/train", "", ("train", "team-a", "pod")),
        ("pod/train", "team-a", ("train", "team-a", "pod")),
        ("po/train.x", "", ("train.x", "", "pod")),
        ("deploy/train", "", ("train", "", "deployment")),
        ("deployments/train", "team-a", ("train", "team-a", "deployment")),
        ("job/train", "", ("train", "", "job")),
        ("Deployment/train", "", ("train", "", "deployment")),
        ("JOB/train", "team-a", ("train", "team-a", "job")),
        ("RayJob/train", "", ("train", "rayjob", "pod")),  # of files: a workload of any kind
        ("sts/train", "", ("train", "", "statefulset")),
        ("ds/train", "", ("train", "", "daemonset")),
        ("rs/train", "", ("train", "", "replicaset")),
        ("job", "job", ("job", "job", "pod")),
    ],
)
def test_a_pod_or_a_workload_is_named_as_for_kubectl(text: str, option: str, found: tuple[str, str, str]) -> None:
    wanted = parse_wanted(text, option)
    assert (wanted.name, wanted.namespace, wanted.kind.word) == found
    assert (wanted.kind is POD) == (found[2] == "pod")


@pytest.mark.parametrize("text", ["", "/", "a/", "/a", "a/b/c", "Train", "deploy/", "team_a/train", "a\x1b[2J"])
def test_what_names_no_pod_is_refused(text: str) -> None:
    with pytest.raises(NoNameError, match="expected POD, NAMESPACE/POD or KIND/NAME, found"):
        parse_wanted(text, "")


@pytest.mark.parametrize("front", ["rayjob", "team-a", "cronjobs"])
def test_beside_a_namespace_a_kind_that_is_not_known_is_told_with_those_that_are(front: str) -> None:
    kinds = "pod, deployment, replicaset, statefulset, daemonset, job"
    said = (
        f'with --namespace a kind stands before the slash ({kinds}), found "{front}". For a workload of another kind '
        f"give the name of its pod; for pod train of namespace {front} leave --namespace away"
    )
    with pytest.raises(NoNameError, match=f"^{re.escape(said)}$"):
        parse_wanted(f"{front}/train", "team-a")
    assert parse_wanted(f"{front}/train", "").namespace == front


def test_selectors_are_written_as_queries() -> None:
    expressions = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "old", "operator": "DoesNotExist"},
        {"key": "app", "operator": "Exists"},
        {"key": "zone", "operator": "NotIn", "values": ["c"]},
    ]
    selector = {"matchLabels": {"app": "train"}, "matchExpressions": expressions}
    assert label_selector(selector, "job a/b") == "app=train,tier in (a,b),!old,app,zone notin (c)"
    assert label_selector({}, "job a/b") == ""


def test_an_operator_that_is_not_known_selects_nothing() -> None:
    with pytest.raises(FormatError, match=r'^job a/b: selector: expected In, .*, found "Gt"$'):
        label_selector({"matchExpressions": [{"key": "a", "operator": "Gt"}]}, "job a/b")

"""A secret of each public kind, put into every text of every kind of object, is not kept."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.redaction.test_objects import OTHERS, POD
from tests.insight.analyze.clusters import Cluster, running
from tests.insight.analyze.faults import mixture
from tests.words.secret_kinds import BY_SHAPE, HEX, KINDS, drawn, words
from webhook.cluster.redaction.objects import kept
from webhook.words import names
from webhook.words.secret_forms import HIDDEN

Keys = tuple[str | int, ...]
QUICK = ("user of a URL", "GitHub", "Amazon", "private key", "a passphrase in quotes", "a word after token")
"""The kinds that are put into texts of all objects; the others only into those of one pod."""


def texts(value: Any, keys: Keys = ()) -> Iterator[Keys]:
    """The paths of all texts, those of names of members left out."""
    if isinstance(value, str):
        yield keys
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from texts(each, (*keys, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from texts(each, (*keys, number))


def planted(document: Any, keys: Keys, text: str) -> Any:
    changed = copy.deepcopy(document)
    node = changed
    for key in keys[:-1]:
        node = node[key]
    node[keys[-1]] = text
    return changed


def leaks(document: Any, kind: str) -> list[Keys]:
    """The places of a document at which a secret of that kind stays."""
    before, secret, after = KINDS[kind]
    wanted = [path for path in texts(document) if path not in {("kind",), ("apiVersion",)}]
    parts = words(secret)
    found = []
    for path in wanted:
        text = json.dumps(kept(planted(document, path, f"{before}{secret}{after}")))
        if any(word in text for word in parts):
            found.append(path)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_no_secret_in_a_field_of_a_pod_is_kept(kind: str) -> None:
    assert leaks(running("train", "h20-node-1", 0, 1), kind) == []
    assert leaks(POD, kind) == []


@pytest.mark.parametrize("kind", QUICK)
def test_no_secret_in_a_field_of_any_other_object_is_kept(kind: str) -> None:
    cluster = Cluster()
    for fault in mixture(2):
        fault.make(cluster)
    seen = set()
    for document in (*OTHERS, *cluster.raw()):
        if document["kind"] not in seen and document["kind"] not in {"Pod", "ClusterSnapshot"}:
            seen.add(document["kind"])
            assert leaks(document, kind) == [], document["kind"]
    assert len(seen) > 8


def test_what_is_planted_would_be_kept_without_that_step() -> None:
    document = running("train", "h20-node-1", 0, 1)
    harmless = [path for path in texts(document) if "pl4in" in json.dumps(kept(planted(document, path, "pl4in")))]
    assert len(harmless) > 20


@pytest.mark.parametrize("kind", BY_SHAPE)
def test_what_only_looks_random_is_kept_in_no_text_of_people(kind: str) -> None:
    secret = BY_SHAPE[kind]
    pod = running("train", "h20-node-1", 0, 1)
    pod["metadata"]["annotations"] |= {f"{names.PREFIX}note": secret, f"{names.PREFIX}json": json.dumps({"a": secret})}
    pod["spec"]["containers"][0]["env"] = [{"name": "NCCL_NOTE", "value": secret}]
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": f"refused: {secret}"}]
    text = json.dumps(kept(pod))
    assert not [word for word in words(secret) if word in text]
    assert text.count(HIDDEN) >= 4


def test_the_value_of_what_is_named_as_a_secret_is_not_kept() -> None:
    pod = running("train", "h20-node-1", 0, 1)
    pod["metadata"]["annotations"][f"{names.PREFIX}password"] = "hunter2"
    pod["spec"]["containers"][0]["env"] = [{"name": "NCCL_TOKEN", "value": "hunter2"}]
    assert "hunter2" not in json.dumps(kept(pod))


def test_names_that_look_random_stay_two_names() -> None:
    """A group of a LeaderWorkerSet is named by a SHA-1, and a cloud may name nodes so."""
    for name in (drawn(40, HEX), drawn(40, HEX, seed=1)):
        pod = running("train", name, 0, 1)
        pod["metadata"]["labels"] = {"leaderworkerset.sigs.k8s.io/group-key": name}
        pod["spec"]["nodeSelector"] = {"example.com/machine": name}
        found = kept(pod)
        assert found is not None
        assert found["spec"]["nodeName"] == found["spec"]["nodeSelector"]["example.com/machine"] == name
        assert found["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-key"] == name


def test_nothing_is_hidden_in_a_cluster_without_secrets() -> None:
    cluster = Cluster()
    for fault in mixture(3):
        fault.make(cluster)
    assert [each for each in map(kept, cluster.raw()) if HIDDEN in json.dumps(each)] == []

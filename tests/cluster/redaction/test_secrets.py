"""A secret of each public kind, put into every text of every kind of object, is not kept."""

import copy
import json
from collections.abc import Iterable, Iterator
from functools import cache
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
QUICK = ("user of a URL", "GitHub", "private key", "a passphrase in quotes")
"""The kinds that are put into each text alone. Every kind is put into the kept texts of pods, many at once."""
PODS = (running("train", "h20-node-1", 0, 1), POD)


def texts(value: Any, keys: Keys = ()) -> Iterator[Keys]:
    """The paths of all texts, those of names of members left out."""
    if isinstance(value, str):
        if keys not in {("kind",), ("apiVersion",)}:
            yield keys
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from texts(each, (*keys, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from texts(each, (*keys, number))


def reduced(document: Any, paths: Iterable[Keys], form: str) -> str:
    """What is kept of a document with another text at these places; ``{}`` in it is the number of the place."""
    changed = copy.deepcopy(document)
    for number, keys in enumerate(paths):
        node = changed
        for key in keys[:-1]:
            node = node[key]
        node[keys[-1]] = form.replace("{}", str(number))
    return json.dumps(kept(changed))


@cache
def rounds() -> list[tuple[Any, list[Keys]]]:
    """The kept texts of the pods, in groups: what stands in all texts of a group at once is kept at each place."""
    groups: list[tuple[Any, list[Keys]]] = []
    for document in PODS:
        of_document: list[list[Keys]] = []
        for path in texts(document):
            if not shows(document, [path]):
                continue
            group = next((each for each in of_document if shows(document, [*each, path])), None)
            if group is None:
                of_document.append([path])
            else:
                group.append(path)
        groups += [(document, each) for each in of_document]
    return groups


def shows(document: Any, paths: list[Keys]) -> bool:
    text = reduced(document, paths, "pl4in{}x")
    return all(f"pl4in{number}x" in text for number in range(len(paths)))


def stays(kind: str, document: Any, paths: Iterable[Keys]) -> bool:
    """Whether a part of a secret of that kind at these places is kept."""
    before, secret, after = KINDS[kind]
    text = reduced(document, paths, f"{before}{secret}{after}")
    return any(word in text for word in words(secret))


def test_more_than_a_hundred_texts_of_the_pods_are_kept() -> None:
    assert sum(len(paths) for _, paths in rounds()) > 100


def test_no_secret_in_a_kept_text_of_a_pod_stays() -> None:
    found = [(kind, paths) for kind in KINDS for document, paths in rounds() if stays(kind, document, paths)]
    assert found == []


@pytest.mark.parametrize("kind", QUICK)
def test_no_secret_in_a_field_of_any_object_is_kept(kind: str) -> None:
    cluster = Cluster()
    for fault in mixture(2):
        fault.make(cluster)
    documents = {document["kind"]: document for document in reversed((*OTHERS, *cluster.raw()))}
    del documents["ClusterSnapshot"], documents["Pod"]
    assert len(documents) > 8
    for document in (*documents.values(), *PODS):
        assert [path for path in texts(document) if stays(kind, document, [path])] == [], document["kind"]


def test_what_only_looks_random_is_kept_in_no_text_of_people() -> None:
    for kind, secret in BY_SHAPE.items():
        pod = running("train", "h20-node-1", 0, 1)
        note = {f"{names.PREFIX}note": secret, f"{names.PREFIX}json": json.dumps({"a": secret})}
        pod["metadata"]["annotations"] |= note
        pod["spec"]["containers"][0]["env"] = [{"name": "NCCL_NOTE", "value": secret}]
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": f"refused: {secret}"}]
        text = json.dumps(kept(pod))
        assert not [word for word in words(secret) if word in text], kind
        assert text.count(HIDDEN) >= 4, kind


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

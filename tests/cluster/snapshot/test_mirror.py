"""What a mirror keeps of an object."""

import msgspec
import pytest

from webhook.cluster.snapshot.mirror import reader_of, weigh
from webhook.words.errors import ManifestError

READ = reader_of("v1", "Node")


def node(**members: object) -> bytes:
    return msgspec.json.encode({"metadata": {"name": "node-1", "labels": {"a": "b"}}, **members})


def test_a_state_in_which_nothing_changed_that_is_kept_is_the_value_from_before() -> None:
    before = READ(node(), "node-1", None)
    assert (
        READ(node(status={"conditions": [{"lastHeartbeatTime": "2026-11-23T09:00:00Z"}]}), "node-1", before) is before
    )


def test_a_state_that_differs_is_a_new_value() -> None:
    before = READ(node(), "node-1", None)
    found = READ(node(spec={"unschedulable": True}), "node-1", before)
    assert found is not before
    assert found.objects != before.objects


def test_an_object_weighs_what_is_kept_of_it() -> None:
    found = READ(node(status={"images": ["x" * 1000]}), "node-1", None)
    assert weigh(found) == sum(len(msgspec.json.encode(each)) for each in found.objects) < 500


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(ManifestError, match="expected a Node"):
        READ(b"{", "node-1", None)

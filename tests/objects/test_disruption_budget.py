"""The selector of a PodDisruptionBudget as a query, and budgets of any form."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.disruption_budget import read_disruption_budget


def selector(text: str) -> str | None:
    metadata = b'{"metadata": {"name": "b", "namespace": "team"}, "spec": '
    return read_disruption_budget(metadata + text.encode() + b"}").label_selector


@pytest.mark.parametrize(
    ("spec", "query"),
    [
        ('{"selector": {"matchLabels": {"app": "a", "tier": "b"}}}', "app=a,tier=b"),
        ('{"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y"]}]}}', "a in (x,y)"),
        ('{"selector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}}', "a notin (x)"),
        ('{"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}', "a"),
        (
            '{"selector": {"matchLabels": {"b": "c"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}}',
            "b=c,!a",
        ),
        # policy/v1: an empty selector selects all pods of the namespace, none selects no pod.
        ('{"selector": {}}', ""),
        ("{}", None),
        # An operator of the future: no pod is evicted against it.
        ('{"selector": {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["x"]}]}}', ""),
    ],
)
def test_the_selector_becomes_a_query(spec: str, query: str | None) -> None:
    assert selector(spec) == query


def test_the_evictions_that_are_allowed_are_read_and_count_as_none_where_missing() -> None:
    document = b'{"metadata": {"name": "b", "namespace": "team"}, "spec": {}, "status": {"disruptionsAllowed": 2}}'
    budget = read_disruption_budget(document)
    assert (budget.key, budget.allowed) == ("team/b", 2)
    assert read_disruption_budget(b'{"metadata": {"name": "b", "namespace": "team"}}').allowed == 0


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["metadata", "spec", "status", "selector", "name", "namespace", "matchLabels", "disruptionsAllowed"]
                ),
                inner,
            )
        ),
    )
)
def test_a_document_of_any_form_is_read_or_refused(document: object) -> None:
    try:
        budget = read_disruption_budget(msgspec.json.encode(document))
    except msgspec.DecodeError:
        return
    assert isinstance(budget.label_selector, str | None)

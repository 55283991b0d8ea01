"""PodDisruptionBudgets with the pods that they select: no namespace with many hides those of the others."""

import asyncio
import json
from collections import Counter
from urllib.parse import unquote

import pytest

from tests.cluster.api.access import ToldAccess
from tests.cluster.api.stand_in import Line, Received, serving
from webhook.cluster.api import disruption
from webhook.cluster.api.disruption import MOST_OF_ONE, Listed, list_budgets
from webhook.cluster.api.session import Session
from webhook.cluster.api.verbs import Api

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"


def listed(budgets: Counter[str], *namespaces: str) -> tuple[Listed, list[str]]:
    """What is read of so many budgets of each namespace, in pages of one budget; and of which pods lists were asked."""
    every = [
        {
            "metadata": {"name": f"b{number}", "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": f"a{number}"}}},
            "status": {"disruptionsAllowed": 1},
        }
        for namespace, count in budgets.items()
        for number in range(count)
    ]

    async def work() -> tuple[Listed, list[str]]:
        async def answered(request: Received, line: Line) -> None:
            path, _, query = request.target.partition("?")
            if path == BUDGETS:
                begin = int(query.partition("continue=")[2] or 0)
                following = str(begin + 50) if begin + 50 < len(every) else ""
                found = {"metadata": {"continue": following}, "items": every[begin : begin + 50]}
            else:
                app = unquote(query).partition("app=")[2].partition("&")[0]
                found = {"metadata": {}, "items": [{"metadata": {"name": f"pod-of-{app}"}}]}
            line.say(json.dumps(found).encode())

        async with serving(answered) as server:
            session = Session(ToldAccess(f"http://127.0.0.1:{server.port}"), user_agent="test", seconds=20.0)
            try:
                found = await list_budgets(Api(session), namespaces)
            finally:
                await session.close()
            return found, [one.target for one in server.received if not one.target.startswith(BUDGETS)]

    return asyncio.run(work())


def test_each_budget_comes_with_the_pods_that_it_selects() -> None:
    (found, unknown), asked = listed(Counter(team=2, other=3), "team")
    assert [(budget.key, pods) for budget, pods in found] == [("team/b0", ["pod-of-a0"]), ("team/b1", ["pod-of-a1"])]
    assert unknown == frozenset()
    assert all("/namespaces/team/pods?" in target for target in asked)


@pytest.mark.parametrize("count", [MOST_OF_ONE, MOST_OF_ONE + 1, 6 * MOST_OF_ONE])
def test_a_namespace_with_too_many_is_unknown_and_hides_no_other(count: int) -> None:
    (found, unknown), asked = listed(Counter(many=count, team=1), "many", "team")
    is_known = count <= MOST_OF_ONE
    assert Counter(budget.metadata.namespace for budget, _ in found) == Counter(many=count * is_known, team=1)
    assert unknown == (frozenset() if is_known else {"many"})
    assert len(asked) == len(found)


def test_of_many_namespaces_those_with_the_fewest_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disruption, "MOST_BUDGETS", 10)
    (found, unknown), _ = listed(Counter(a=6, b=5, c=1, d=4), *"abcd")
    assert Counter(budget.metadata.namespace for budget, _ in found) == Counter(b=5, c=1, d=4)
    assert unknown == {"a"}

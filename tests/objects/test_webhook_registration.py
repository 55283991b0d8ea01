"""Whose Bindings the API server asks the webhook about."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook.objects.webhook_registration import AskedAbout, asked_about, namespace_of
from webhook.words.errors import FormatError

INSTALL = Path(__file__).parents[2] / "deploy" / "install.yaml"
HERE = "system:serviceaccount:hami-system:hami-scheduler"
ELSEWHERE = "system:serviceaccount:system-gpu:hami-scheduler"


def registered(*expressions: str, name: str = "bindings.gpu.topology") -> dict[str, Any]:
    conditions = [{"name": f"c{number}", "expression": text} for number, text in enumerate(expressions)]
    others = {"name": "pods.gpu.topology", "matchConditions": [{"name": "never", "expression": "false"}]}
    return {"webhooks": [others, {"name": name} | ({"matchConditions": conditions} if conditions else {})]}


def test_what_the_chart_writes_names_hamis_scheduler_where_it_usually_is_and_nowhere_else() -> None:
    (chart,) = (
        one for one in yaml.safe_load_all(INSTALL.read_text()) if one and one["kind"] == "MutatingWebhookConfiguration"
    )
    assert asked_about(chart, {HERE, ELSEWHERE}) == AskedAbout(asked=(HERE,), passed_by=(ELSEWHERE,))


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        ([], AskedAbout(asked=(HERE,))),
        ([f"request.userInfo.username == '{HERE}'"], AskedAbout(asked=(HERE,))),
        ([f'request.userInfo.username in ["{HERE}"]'], AskedAbout(asked=(HERE,))),
        ([f"request.userInfo.username == '{ELSEWHERE}'"], AskedAbout(passed_by=(HERE,))),
        (["request.userInfo.username in []"], AskedAbout(passed_by=(HERE,))),
        ([f"request.userInfo.username in ['{HERE}-2']"], AskedAbout(passed_by=(HERE,))),
        (["request.userInfo.username.endsWith('scheduler')"], AskedAbout(unclear=(HERE,))),
        ([f"request.userInfo.username != '{HERE}'"], AskedAbout(unclear=(HERE,))),
        ([f"!(request.userInfo.username in ['{HERE}'])"], AskedAbout(unclear=(HERE,))),
        (["request.operation == 'CREATE'", f"request.userInfo.username in ['{HERE}']"], AskedAbout(unclear=(HERE,))),
        (["request.operation == 'CREATE'", "request.userInfo.username in ['x']"], AskedAbout(passed_by=(HERE,))),
    ],
)
def test_a_condition_names_the_account_or_does_not_or_is_not_understood(
    expressions: list[str], expected: AskedAbout
) -> None:
    assert asked_about(registered(*expressions), [HERE]) == expected


@pytest.mark.parametrize("configuration", [registered(name="other.example.com"), {}, {"webhooks": None}])
def test_without_a_webhook_for_bindings_no_binding_reaches_it(configuration: dict[str, Any]) -> None:
    assert asked_about(configuration, [HERE]) == AskedAbout(passed_by=(HERE,))


def test_something_else_is_a_sentence() -> None:
    with pytest.raises(FormatError, match=r"^registration of the webhook: expected a MutatingWebhookConfiguration"):
        asked_about({"webhooks": "all"}, [HERE])


@pytest.mark.parametrize(
    ("clients", "namespace"),
    [
        ([{"service": {"namespace": "gpu", "name": "a"}}], "gpu"),
        ([{"url": "https://a"}, {"service": {"namespace": "gpu", "name": "a"}}], "gpu"),
        ([{"url": "https://a"}], ""),
        ([None], ""),
        ([], ""),
    ],
)
def test_the_namespace_of_the_webhook_is_that_of_its_service(clients: list[Any], namespace: str) -> None:
    webhooks = [{"name": "a", "clientConfig": client} for client in clients]
    assert namespace_of({"webhooks": webhooks}) == namespace


def test_a_registration_that_is_none_names_no_namespace() -> None:
    with pytest.raises(FormatError, match="expected a MutatingWebhookConfiguration"):
        namespace_of({"webhooks": 1})

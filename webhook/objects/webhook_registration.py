"""The user names whose Bindings the API server sends to the webhook, from the configuration that registers it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from webhook.words.errors import FormatError

CONFIGURATION = "MutatingWebhookConfiguration"
REGISTRATION = "gpu-topology-webhook"
"""The name of the registration of the chart."""
BINDINGS_WEBHOOK = "bindings.gpu.topology"
_ONE_OF = re.compile(r"""\s*request\.userInfo\.username\s*(?:in\s*\[[^\[\]]*\]|==\s*(?:'[^']*'|"[^"]*"))\s*""")
"""The form of a condition that the chart writes, or that of a single name."""


class _Condition(msgspec.Struct):
    expression: str = ""


class _Service(msgspec.Struct):
    namespace: str = ""
    name: str = ""


class _Client(msgspec.Struct):
    service: _Service | None = None


class _Webhook(msgspec.Struct, rename="camel"):
    name: str = ""
    client_config: _Client | None = None
    match_conditions: list[_Condition] | None = None


class _Configuration(msgspec.Struct):
    webhooks: list[_Webhook] | None = None


class AskedAbout(msgspec.Struct, frozen=True, kw_only=True):
    """User names, sorted by whether the API server asks the webhook about their Bindings."""

    asked: tuple[str, ...] = ()
    passed_by: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()
    """Names for which an expression decides that does more than list names."""


def asked_about(configuration: Mapping[str, Any], accounts: Iterable[str]) -> AskedAbout:
    """Sorts accounts by whether a MutatingWebhookConfiguration covers their Bindings.

    Only conditions on the user name count: those on namespaces and resources hold for all schedulers in the same way.

    Raises:
        FormatError: the object is not a MutatingWebhookConfiguration.
    """
    webhooks = _webhooks(configuration)
    registered = next((webhook for webhook in webhooks if webhook.name == BINDINGS_WEBHOOK), None)
    found: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for account in sorted(accounts):
        found[registered is not None and _is_asked(registered, account)].append(account)
    return AskedAbout(asked=tuple(found[True]), passed_by=tuple(found[False]), unclear=tuple(found[None]))


def namespace_of(configuration: Mapping[str, Any]) -> str:
    """Returns the namespace of the Service by which API servers reach the webhook; empty where they reach it by a URL.

    Raises:
        FormatError: the object is not a MutatingWebhookConfiguration.
    """
    return service_of(configuration)[0]


def service_of(configuration: Mapping[str, Any]) -> tuple[str, str]:
    """Returns namespace and name of the Service by which API servers reach the webhook; empty where it is a URL.

    Raises:
        FormatError: the object is not a MutatingWebhookConfiguration.
    """
    clients = (webhook.client_config for webhook in _webhooks(configuration))
    services = (client.service for client in clients if client and client.service)
    return next(((service.namespace, service.name) for service in services), ("", ""))


def _webhooks(configuration: Mapping[str, Any]) -> list[_Webhook]:
    try:
        return msgspec.convert(configuration, _Configuration).webhooks or []
    except msgspec.ValidationError as error:
        source = "registration of the webhook"
        raise FormatError(source, expected="a MutatingWebhookConfiguration", found=str(error)) from None


def _is_asked(webhook: _Webhook, account: str) -> bool | None:
    verdicts = [_holds(condition.expression, account) for condition in webhook.match_conditions or ()]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _holds(expression: str, account: str) -> bool | None:
    """Returns whether a CEL condition lets Bindings by this user through; ``None``: only the API server can tell."""
    if not _ONE_OF.fullmatch(expression):
        return None
    return any(f"{quote}{account}{quote}" in expression for quote in "'\"")

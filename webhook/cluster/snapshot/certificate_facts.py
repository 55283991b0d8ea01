"""The public facts of the certificates in a Secret and in a webhook configuration. Keys are never read."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from certs.certificate import fingerprint, load
from webhook.cluster.redaction.objects import CERTIFICATES, Object, identity
from webhook.cluster.redaction.parts import part, parts
from webhook.objects.webhook_registration import CONFIGURATION
from webhook.words import names

_SECRET_FILES = ("tls.crt", "ca.crt")


def certificates_of(document: Mapping[str, Any]) -> Object | None:
    """Return the certificates of an object; None if its kind has none, or if it belongs to another webhook.

    Args:
        document: A Secret or a MutatingWebhookConfiguration, as the API server sends it.
    """
    kind = document.get("kind")
    if kind == "Secret":
        found = {name: part(document, "data").get(name) for name in _SECRET_FILES}
        return _document(document, {name: text for name, text in found.items() if text is not None})
    if kind != CONFIGURATION:
        return None
    bundles = {
        str(webhook.get("name")): part(webhook, "clientConfig").get("caBundle", "")
        for webhook in parts(document, "webhooks")
        if str(webhook.get("name")).endswith(f".{names.PREFIX.rstrip('/')}")
    }
    return _document(document, bundles) if bundles else None


def _document(document: Mapping[str, Any], texts: Mapping[str, Any]) -> Object:
    namespace, name = identity(document)
    metadata = {"name": f"{document['kind']}/{name}"} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": f"{names.PREFIX}v1",
        "kind": CERTIFICATES,
        "metadata": metadata,
        "places": list(texts),
        "certificates": [fact for place, text in texts.items() for fact in _facts(place, text)],
    }


def _facts(place: str, text: Any) -> Iterable[Object]:
    try:
        pem = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        pem = b""
    for found in load(pem):
        yield {
            "place": place,
            "fingerprint": fingerprint(found),
            "begins": found.not_valid_before_utc.isoformat(),
            "ends": found.not_valid_after_utc.isoformat(),
        }

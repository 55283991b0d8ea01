"""The public facts of the webhook's certificates: their places and validity."""

from datetime import datetime

import msgspec

from webhook.cluster.redaction.objects import Object, identity
from webhook.words.timestamp import parse_timestamp


class Certificate(msgspec.Struct, frozen=True):
    """One certificate at one place."""

    place: str
    """The place: ``ca.crt`` or ``tls.crt`` of the Secret, or the name of a webhook whose ``caBundle`` has it."""
    fingerprint: str
    """The SHA-256 digest of the DER form, in hexadecimal digits."""
    begins: datetime | None
    ends: datetime | None


class Certificates(msgspec.Struct, frozen=True):
    """The certificates of one object."""

    kind: str
    """``Secret`` or ``MutatingWebhookConfiguration``."""
    namespace: str
    name: str
    places: tuple[str, ...]
    """The places where certificates could be, with or without one."""
    certificates: tuple[Certificate, ...]

    def at(self, place: str) -> tuple[Certificate, ...]:
        """Return the certificates at a place."""
        return tuple(found for found in self.certificates if found.place == place)


def read_certificates(document: Object) -> Certificates:
    """Read the certificates of one object from a document with the name ``Kind/name``."""
    namespace, name = identity(document)
    kind, _, of = name.partition("/")
    return Certificates(
        kind=kind,
        namespace=namespace,
        name=of,
        places=tuple(document.get("places", ())),
        certificates=tuple(
            Certificate(
                place=found.get("place", ""),
                fingerprint=found.get("fingerprint", ""),
                begins=parse_timestamp(found.get("begins")),
                ends=parse_timestamp(found.get("ends")),
            )
            for found in document.get("certificates", ())
        ),
    )

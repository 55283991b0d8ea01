"""What is public of the certificates of the webhook: when each is valid, and where it stands."""

from datetime import datetime

import msgspec

from webhook.cluster.redaction.objects import Object, identity
from webhook.words.timestamp import parse_timestamp


class Certificate(msgspec.Struct, frozen=True):
    """One certificate at one place."""

    place: str
    """``ca.crt`` or ``tls.crt`` of the Secret, or the name of a webhook in whose ``caBundle`` it stands."""
    fingerprint: str
    """SHA-256 over the DER form, in hexadecimal digits."""
    begins: datetime | None
    ends: datetime | None


class Certificates(msgspec.Struct, frozen=True):
    """The certificates of one object."""

    kind: str
    """``Secret`` or ``MutatingWebhookConfiguration``."""
    namespace: str
    name: str
    places: tuple[str, ...]
    """Where certificates could stand, whether one does or not."""
    certificates: tuple[Certificate, ...]

    def at(self, place: str) -> tuple[Certificate, ...]:
        """The certificates at a place."""
        return tuple(found for found in self.certificates if found.place == place)


def read_certificates(document: Object) -> Certificates:
    """The certificates of one object; the document is called ``Kind/name``."""
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

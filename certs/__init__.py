"""TLS certificates: made, kept and replaced while every review goes on. Knows nothing of the webhook.

``rounds`` is the care of the certificates in a cluster, one look after the other. It decides with ``plan``, from what
``objects`` reads in the Secret and in the webhook configuration, and its caller hands in the way to the API server.
``keeper`` runs it beside a server, or keeps files that another program renews. ``context`` shows the certificate in
handshakes, and ``handshake`` guards those that demand one of the client. ``certificate`` makes and reads certificates,
and ``describe`` shows them to a person.
"""


class CertsError(Exception):
    """The base class of all deliberate errors of this package; its text is meant for the user."""


class BundleError(CertsError):
    """An unusable certificate or key; the text says what to do."""


class SecretError(CertsError):
    """A Secret that is missing, or that is not the webhook's own; the text says what to do."""


class ApiFailure(CertsError):
    """A failed request to the API server."""


class Conflict(ApiFailure):
    """A write by another client since the object was read; read it again."""

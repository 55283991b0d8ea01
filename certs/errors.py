"""The errors of this package, which a person can repair."""


class CertsError(Exception):
    """The base class of all deliberate errors of this package; its text is meant for the user."""


class BundleError(CertsError):
    """An unusable certificate or key; the text says what to do."""


class ForeignSecret(CertsError):
    """A Secret that is not the webhook's own, into which nothing is written; the text says what to do."""


class MissingSecret(CertsError):
    """A missing Secret that the installer of the webhook must make; the text says how."""


class ApiFailure(CertsError):
    """A failed request to the API server."""


class Conflict(ApiFailure):
    """A write by another client since the object was read; read it again."""

"""Failures that a person can repair."""


class CertsError(Exception):
    """The root of what this package raises on purpose; its text is meant for the user."""


class BundleError(CertsError):
    """A certificate or key cannot be used; the text says what to do."""


class ForeignSecret(CertsError):
    """The Secret is not the webhook's own, so nothing is written into it; the text says what to do."""


class MissingSecret(CertsError):
    """There is no Secret, and whoever installs the webhook makes it; the text says how."""


class ApiFailure(CertsError):
    """A request to the API server did not do what it should."""


class Conflict(ApiFailure):
    """Another client wrote the object in between; read it again."""

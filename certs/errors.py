"""Failures that a person can repair."""


class BundleError(Exception):
    """A certificate or key cannot be used; the text says what to do."""

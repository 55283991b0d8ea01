"""The output formats and exit code of ``check`` and ``plan``."""

import enum

UNMET = 1
"""The exit code for the answer no."""


class Output(enum.StrEnum):
    """The form of the output."""

    TEXT = "text"
    JSON = "json"

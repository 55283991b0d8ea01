"""The form of the output of a command, and the exit code for the answer no."""

import enum

UNMET = 1
"""The exit code for the answer no."""


class Output(enum.StrEnum):
    """The form of the output."""

    TEXT = "text"
    JSON = "json"

"""The form of the output of a command, and the exit codes for the answers no and unknown."""

import enum

UNMET = 1
"""The exit code for the answer no."""
NOT_KNOWN = 3
"""The exit code for an answer that is not known."""


class Output(enum.StrEnum):
    """The form of the output."""

    TEXT = "text"
    JSON = "json"

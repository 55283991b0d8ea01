"""What ``check`` and ``plan`` print, and how they end."""

import enum

UNMET = 1
"""Exit code when the answer is no."""


class Output(enum.StrEnum):
    """What to print."""

    TEXT = "text"
    JSON = "json"

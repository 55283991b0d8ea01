"""Adds the new names of the code to ``names.txt``; it removes none, because a promised name stays."""

from tests.promises.names import NAMES, found, promised

NAMES.write_text("".join(f"{line}\n" for line in sorted(found() | promised())), encoding="utf-8")

"""Writes ``docs/messages.md``."""

from tests.words.catalogue.page import PAGE, page

PAGE.write_text(page(), encoding="utf-8")

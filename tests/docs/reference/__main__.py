"""Writes the tables of the configuration, of the metrics, of facts and of promises into their pages."""

from tests.docs.reference.pages import PAGES, written

for page in PAGES:
    page.write_text(written(page), encoding="utf-8")

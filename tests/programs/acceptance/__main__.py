"""Renews the table of ``docs/acceptance/results.md``."""

from tests.programs.acceptance.page import PAGE, RESULTS, page, read_results

PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), read_results(RESULTS)), encoding="utf-8")

"""The tables of ``docs/`` that follow from the code: ``make reference`` writes them, and a test finds them stale."""

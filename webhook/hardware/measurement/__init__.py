"""The measurement of a machine, as values: the report, the expectations and the verdicts."""

"""What a measurement of a machine says, as values: the report, what was expected, and the verdict."""

"""Whether the tests notice: faults that a person describes, and mutants that a library makes."""

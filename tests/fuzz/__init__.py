"""Fuzzing: inputs that are bent by chance, and the laws that hold for each of them. ``python -m tests.fuzz TARGET``."""

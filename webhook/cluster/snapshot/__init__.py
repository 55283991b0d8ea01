"""Reads a cluster as it is now, or as files have it, for ``analyze`` and ``state save``."""

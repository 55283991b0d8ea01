"""The decision about a Binding; no I/O."""

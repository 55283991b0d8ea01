"""Kubernetes objects and written formats: the values that are read from and written to the outside, without I/O."""

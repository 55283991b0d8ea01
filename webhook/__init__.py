"""A mutating admission webhook that gives multi-GPU pods on HAMi clusters their NVLink back."""

__version__ = "0.1.0"

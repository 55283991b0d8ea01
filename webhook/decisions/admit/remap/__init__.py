"""The remap container: whether a pod gets one, and its form."""

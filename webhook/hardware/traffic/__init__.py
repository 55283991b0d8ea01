"""The traffic of GPUs in the last minutes."""

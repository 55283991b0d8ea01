"""The remap container of a pod: its choice and its form."""

"""The explanation why a pod has NVLink or does not. Pure functions, with the rules of admission and bind."""

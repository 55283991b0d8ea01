"""Recipes for NVLink that people copy, from the manifest to the running pod."""

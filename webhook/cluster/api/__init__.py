"""The adapter to the API server: the only package that speaks HTTP to it."""

"""Snapshots of a cluster: read from the API server as it is now, or from files."""

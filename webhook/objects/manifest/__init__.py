"""Kubernetes manifests as people write them: YAML and JSON documents, and the pod templates inside."""

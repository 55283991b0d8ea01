"""Kubernetes manifests as people write them: YAML documents and the pod templates inside."""

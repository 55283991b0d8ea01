"""What is wrong in a cluster: all that ``explain`` finds of its pods with GPUs, and what only the cluster shows.

Documents of Kubernetes become a :class:`webhook.cluster.snapshot.model.Snapshot`, and a snapshot becomes findings.
"""

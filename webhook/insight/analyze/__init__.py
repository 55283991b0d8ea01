"""The findings of a whole cluster: those of ``explain`` about each pod with GPUs, and those about the cluster itself.

A :class:`webhook.cluster.snapshot.model.Snapshot` of the objects of Kubernetes becomes findings.
"""

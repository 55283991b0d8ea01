"""How nodes are found for a job that may need several: the inner parts of ``webhook.topology.planning.plan``."""

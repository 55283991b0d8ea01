"""How the best of very many sets of GPUs is found: the inner parts of ``webhook.topology.selection.select``."""

"""The program ``gpu-topology agent``: it discovers the topology of its node, again and again, and publishes it."""

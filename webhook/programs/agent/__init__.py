"""The program ``gpu-topology agent``, which discovers the topology of its node at an interval and publishes it."""

"""One machine: its topology, how the topology is discovered, its traffic, and measurements of it."""

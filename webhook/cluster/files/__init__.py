"""State from files: namespaces, pods, claims and topologies of a state directory."""

"""Plans for jobs that may need several nodes: ``plan`` chooses the nodes and their GPUs."""

"""Which GPUs of a node a job gets: ``request``, ``select``, and what they are made of."""

"""A ResourceClaimTemplate that only linked GPUs can satisfy: from topologies over alternatives to the object."""

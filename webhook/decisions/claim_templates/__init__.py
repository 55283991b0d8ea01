"""A ResourceClaimTemplate that only linked GPUs can satisfy: from topologies to alternatives to the object."""

"""What pods wait for us, as the API server measures it, in a cluster with many nodes and many pods a second."""

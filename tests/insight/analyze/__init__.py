"""Tests of what is found in a cluster, and of what of it is kept."""

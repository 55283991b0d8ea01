"""What commands ask a cluster, one thing after the other, and what becomes of what they may not read."""

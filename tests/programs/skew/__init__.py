"""Programs of two versions beside each other."""

"""Dynamic Resource Allocation at a real control plane: what drivers publish, claims, pods, and how they are bound."""

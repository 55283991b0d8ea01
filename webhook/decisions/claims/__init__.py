"""GPUs that pods get by ResourceClaims (Dynamic Resource Allocation): what claims ask for, and what they were given."""

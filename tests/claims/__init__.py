"""GPUs by resource claims."""

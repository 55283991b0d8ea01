"""The acceptance run, on machines that the stub of NVML plays."""

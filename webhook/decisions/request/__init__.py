"""What a pod asks of GPUs, as admission and bind both read it from the pod. No I/O, no logging, no clock."""

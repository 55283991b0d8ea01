"""The GPU request of a pod, as admission and bind both read it from the pod. No I/O, no logging, no clock."""

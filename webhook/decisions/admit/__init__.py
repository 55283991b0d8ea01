"""The decision about a pod that is being created. No I/O, no logging, no clock."""

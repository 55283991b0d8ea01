"""Discovery: the topology of the machine that we run on, from NVML and sysfs."""

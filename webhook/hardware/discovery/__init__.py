"""Discovery of the topology of the machine that this program runs on, from NVML and sysfs."""

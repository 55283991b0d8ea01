"""HAMi's scheduler and ours at one API server; what stands in for hardware is in ``nodes`` and ``device_plugin``."""

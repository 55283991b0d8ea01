"""The decisions: functions from values to values. Nothing here reads a cluster, a file, a clock or a driver."""

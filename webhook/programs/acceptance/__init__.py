"""The acceptance run: what this project claims, tried on a machine with GPUs, judged, and packed to be looked at."""

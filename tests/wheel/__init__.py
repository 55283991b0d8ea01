"""The wheel: what is in it, and what works when it is installed."""

"""The HTTPS server: reads state, asks the core, writes the answer."""

"""The webhook's HTTPS server, which answers reviews: it reads state, calls the decisions, and writes the answers."""

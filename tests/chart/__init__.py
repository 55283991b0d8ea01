"""The chart: what is generated for it, and what it renders to."""

"""Pictures of a node, for terminals and as SVG. Pure functions, which draw values and decide nothing."""

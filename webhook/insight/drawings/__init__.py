"""Pictures of a node: for terminals and as SVG. Pure; they draw values and decide nothing."""

"""What is told: explanations, findings of a whole cluster, overviews, drawings, and the page."""

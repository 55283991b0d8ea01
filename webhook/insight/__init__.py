"""Everything that people read: explanations of pods, findings of a cluster, overviews, drawings, and the page."""

"""Which cards pods get before HAMi chooses: decisions of the planner, from values alone."""

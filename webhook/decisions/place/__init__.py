"""The decisions of the planner, from values alone: the cards that pods get before HAMi chooses."""

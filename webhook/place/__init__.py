"""Which cards a pod gets before HAMi decides: the decision of the planner, and the patches that carry it out."""

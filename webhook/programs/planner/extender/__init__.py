"""The scheduler extender: it answers kube-scheduler from the mirrors of a planner, whether or not that one leads."""

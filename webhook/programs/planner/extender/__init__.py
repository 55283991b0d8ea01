"""The scheduler extender. It answers kube-scheduler from a planner's mirrors, whether or not that planner leads."""

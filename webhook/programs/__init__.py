"""The programs: the server, the agent, the planner with its extender, the program in the pod, and the measurement."""

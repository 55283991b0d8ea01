"""The planner: the program that lets the decisions choose cards for waiting pods, and writes the choices."""

"""The planner: the program that has the cards of waiting pods chosen, and writes what was chosen."""

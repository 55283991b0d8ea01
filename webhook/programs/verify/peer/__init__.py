"""The trial whether two pods of one node can use each other's memory, and how fast."""

"""A cluster at a glance: its nodes, their cards and links, the pods that hold cards, and the links of these pods."""

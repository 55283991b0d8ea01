"""A cluster at a glance: nodes, their cards and links, who holds them, and what the pods got."""

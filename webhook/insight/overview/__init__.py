"""A cluster at a glance: its nodes with their cards and links, and its pods with the cards and links that they got."""

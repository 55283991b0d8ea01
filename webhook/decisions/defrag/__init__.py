"""Moves of running pods that give other pods linked cards back."""

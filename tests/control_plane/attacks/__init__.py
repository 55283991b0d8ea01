"""Attacks on the webhook at a real API server: what they come to, and what becomes of everybody else meanwhile."""

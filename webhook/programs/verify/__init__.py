"""Measures how fast the cards of a machine reach each other, and judges it by the machine's topology."""

"""The measurement of bandwidths between the cards of a machine, and its comparison with the machine's topology."""

"""What a review costs: this webhook beside a server that does nothing, measured in one run. See `bench.__main__`."""

"""The benchmarks: the cost of a review, compared with a server that does nothing in the same run (`bench.__main__`)."""

"""Programs of other projects that the tests run: found, or built with Go and kept for the next run."""

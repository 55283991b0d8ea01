"""Programs that the tests run and others wrote: found, or built with Go and kept for the next run."""

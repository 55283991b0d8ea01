"""Values and written formats: what is read from and written to the outside, without any I/O."""

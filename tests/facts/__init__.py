"""What the code takes for granted of other projects: each fact with its source, its versions and its judge."""

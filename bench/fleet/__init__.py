"""A simulated cluster in which pods come and go: what they get and how long they wait, beside HAMi alone."""

"""Which GPUs of which nodes a job gets that may need several: ``plan``, and what it is made of."""

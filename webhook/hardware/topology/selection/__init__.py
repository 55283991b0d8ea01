"""The selection of GPUs of one node for a job: a ``Request``, the answer of ``select``, and the search."""

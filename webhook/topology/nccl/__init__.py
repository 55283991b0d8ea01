"""The topology file of NCCL: written, and checked as NCCL itself would read it."""

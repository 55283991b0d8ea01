"""Topologies from what clusters already have: the text of nvidia-smi, and annotations of HAMi."""

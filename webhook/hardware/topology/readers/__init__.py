"""Readers of topologies from sources that clusters already have: the text of nvidia-smi, and annotations of HAMi."""

"""The program ``gpu-topology remap``, which runs in each injected pod before its GPUs are used.

On the node it verifies the values that admission and bind have written, and writes files for the other containers
(docs/injection.md, section 12). It must start in milliseconds, so it loads only the standard library and NVML.
"""

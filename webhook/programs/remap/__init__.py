"""``gpu-topology remap``, which runs in every injected pod before its GPUs are used: docs/injection.md, section 12.

It verifies on the node what admission and bind have written, and writes files for the other containers. It starts in
milliseconds, so it loads the standard library and NVML, nothing else.
"""

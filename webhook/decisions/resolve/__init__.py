"""The resolution of a pod's allocation: all that follows from its GPUs. Pure, standard library only.

Bind, admission, ``explain`` and the remap program call one function (``resolve.resolve``).
"""

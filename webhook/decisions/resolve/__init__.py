"""What follows for a pod from the GPUs that it was given; pure, standard library only.

Bind, admission, ``explain`` and the remap program ask the same function (``resolve.resolve``).
"""

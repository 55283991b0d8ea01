"""``make gpu``: what one machine with GPUs proves of this project, in at most twelve minutes and without a network.

``run`` runs the steps, ``steps`` lists them, and the other modules are what they do. ``pack`` makes the kit.
"""

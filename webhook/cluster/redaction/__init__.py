"""The parts of Kubernetes objects that something is judged by, and nothing that may be secret.

Every object is reduced to them before it enters a snapshot. So nothing that leaves in a state directory, on the page or
in JSON can hold what never came in, and what is saved is what was judged.
"""

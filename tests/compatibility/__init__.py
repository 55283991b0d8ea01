"""What the tests have seen work: HAMi, Kubernetes, device list strategy, profile and carrier, as the runs tell it.

A test says nothing about it. Where a pod that we prepared has been given its cards, what it is and where it ran is
noted beside the test, and the test's outcome decides.
"""

"""The reduction of Kubernetes objects to the fields that are judged, without anything that may be secret.

Every object is reduced before it enters a snapshot. So a state directory, the page and JSON output cannot hold other
fields, and the saved objects are the judged ones.
"""

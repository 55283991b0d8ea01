"""``gpu-topology demo``: the main task of the project, end to end, on this machine.

The demo starts the webhook as its own process over TLS, sends every example workload through it, and shows the changes
with their reasons. Then it binds some of the pods to a node, and runs their start programs. Only scheduler, API server,
kubelet (``cluster``) and driver are simulated.
"""

from webhook.cli.demo.command import demo

__all__ = ["demo"]

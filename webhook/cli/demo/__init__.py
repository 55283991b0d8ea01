"""``gpu-topology demo``: the main job, end to end, on this machine.

Starts the webhook as its own process over TLS, sends every example workload through it and shows what changed and why;
then lets some of the pods go to a node, and runs what starts in them there. Only scheduler, API server and kubelet are
played (``cluster``), and the driver.
"""

from webhook.cli.demo.command import demo

__all__ = ["demo"]

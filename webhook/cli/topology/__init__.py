"""``gpu-topology topology``: a node as text, picture, NCCL file or document, and plans of jobs on it.

There is one module for each command. All of them get the node from ``source``.
"""

import typer

from webhook.cli.topology import import_text, plan, show, xml

topology = typer.Typer(name="topology", no_args_is_help=True)
topology.command("show")(show.show)
topology.command("xml")(xml.xml)
topology.command("import")(import_text.import_text)
topology.command("plan")(plan.plan)


@topology.callback()
def _root() -> None:
    """Show and convert the topology of a node, and plan with it."""

"""``gpu-topology status``: the nodes with their cards, and the pods on them, at a glance."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.columns import WideOption, print_parts, table_console
from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import (
    ContextOption,
    KubeconfigOption,
    namespace_of_context,
    refuse_cluster,
    wanted_cluster,
)
from webhook.cli.output import Output
from webhook.cli.scope_options import (
    FILE_OPTION,
    RECURSIVE_OPTION,
    AllNamespacesOption,
    NamespaceOption,
    StateOption,
    refuse_both,
)
from webhook.words.errors import GpuTopologyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from webhook.cli.status.read import Source
    from webhook.cluster.api.contexts import Context
    from webhook.insight.overview.model import Overview

UNREADABLE = 2


def status(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODE]...", help="Only these nodes.")] = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    file: Annotated[list[str] | None, FILE_OPTION] = None,
    recursive: Annotated[bool, RECURSIVE_OPTION] = False,
    state: StateOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file of the webhook.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT,
    every: Annotated[bool, typer.Option("--all", help="Also nodes and pods that lose nothing, where many do.")] = False,
    wide: WideOption = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            "-w",
            help="Draw again what changes, until Ctrl-C. The cluster is read anew after at least 2 s, and after ten "
            "times the time that a read took.",
        ),
    ] = False,
) -> None:
    """Show the GPUs of a cluster: who has each of them, how they are linked, and what pods get of it.

    Ends with exit code 0 if the cluster or the files were read, with 2 if not.
    """
    from webhook.cli.status.read import Source

    is_cluster = bool(kubeconfig or context) or (file is None and state is None)
    refuse_both(namespace, everywhere=all_namespaces)
    if state is not None:
        refuse_cluster(kubeconfig, context, "give either a state directory or a cluster")
    if watch and (not is_cluster or output is Output.JSON):
        raise typer.BadParameter("it needs a cluster, and no other output than text", param_hint="--watch")
    if watch and wide:
        raise typer.BadParameter("it draws within the terminal", param_hint="--watch")
    try:
        cluster = wanted_cluster(kubeconfig, context) if is_cluster else None
        wanted = _namespace(cluster, namespace, everywhere=all_namespaces) if is_cluster else namespace
        source = Source(
            cluster=cluster,
            is_cluster=is_cluster,
            namespace=wanted,
            nodes=frozenset(nodes or ()),
            files=tuple(file or ()),
            recursive=recursive,
            state=state,
            config=config,
        )
        _show(source, output, every=every or bool(nodes), wide=wide, watch=watch)
    except GpuTopologyError as error:
        complain(f"gpu-topology: {error}")
        raise typer.Exit(UNREADABLE) from None


def _namespace(cluster: "Context | None", namespace: str | None, *, everywhere: bool) -> str | None:
    """Return the namespace whose pods are shown; None for all."""
    return None if everywhere else namespace or namespace_of_context(cluster)


def _show(source: "Source", output: Output, *, every: bool, wide: bool, watch: bool) -> None:
    from webhook.cli.status.picture import picture

    if output is Output.JSON:
        import msgspec

        from webhook.words.printable import printable_json

        typer.echo(printable_json(msgspec.json.format(msgspec.json.encode(source.read())).decode()))
        return

    def draw(found: "Overview", width: int) -> "Sequence[RenderableType]":
        return picture(found, width=width, every=every)

    console = table_console(wide=wide)
    if not watch:
        print_parts(console, draw(source.read(), console.width))
        return
    from webhook.cli.status.watch import watch_file, watch_terminal

    with suppress(KeyboardInterrupt):
        (watch_terminal if console.is_terminal else watch_file)(console, source.read, draw)

"""``gpu-topology state save``: a cluster as files, for a look elsewhere or a request for help."""

from pathlib import Path
from typing import Annotated

import typer

from webhook.cli.kubeconfig import ContextOption, KubeconfigOption, wanted_cluster
from webhook.words.listing import counted

state = typer.Typer(name="state", no_args_is_help=True, help="A cluster as files.")


@state.callback()
def _group() -> None:
    """A cluster as files."""


@state.command()
def save(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write: a new or an empty directory.")],
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file of the webhook.")] = None,
) -> None:
    """Write what 'analyze', 'explain', 'inject' and 'bind' know of a cluster into a state directory.

    Values of most environment variables, commands, images and annotations of others are left out; Secrets too.
    """
    from webhook.cli.snapshots import from_cluster
    from webhook.cluster.snapshot.directory import check_target, files_of, kinds, write

    check_target(directory)
    read = from_cluster(wanted_cluster(kubeconfig, context), None, config)
    files = files_of(read)
    for folder, number in kinds(files).items():
        typer.echo(f"{folder}: {counted(number, 'file')}")
    typer.echo("left out: values of environment variables and arguments that decide nothing about links, images, keys")
    write(directory, files)
    typer.echo(f"written to {directory}: gpu-topology analyze --state {directory}")

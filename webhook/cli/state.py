"""``gpu-topology state save``: a cluster as files, for a look elsewhere or a request for help."""

import json
from pathlib import Path
from typing import Annotated

import typer

from webhook.cli.kubeconfig import ContextOption, KubeconfigOption, wanted_cluster
from webhook.cli.output import Output
from webhook.words.listing import counted

state = typer.Typer(name="state", no_args_is_help=True, help="A cluster as files.")


@state.callback()
def _group() -> None:
    """A cluster as files."""


@state.command()
def save(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write; it is made if it is not there.")],
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file of the webhook.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write into a directory with files; those of an earlier state go.")
    ] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT,
) -> None:
    """Write what 'analyze', 'explain', 'inject' and 'bind' know of a cluster into a state directory.

    Values of most environment variables, commands, images and annotations of others are left out; Secrets too.
    """
    from webhook.cli.snapshots import from_cluster
    from webhook.cluster.snapshot.directory import check_target, files_of, kinds, write

    check_target(directory, force=force)
    read = from_cluster(wanted_cluster(kubeconfig, context), None, config)
    files = files_of(read)
    if output is Output.JSON:
        write(directory, files)
        typer.echo(json.dumps({"directory": str(directory), "files": kinds(files)}, indent=2))
        return
    for folder, number in kinds(files).items():
        typer.echo(f"{folder}: {counted(number, 'file')}")
    typer.echo("left out: values of environment variables and arguments that decide nothing about links, images, keys")
    write(directory, files)
    typer.echo(f"written to {directory}: gpu-topology analyze --state {directory}")

"""The options that select the pods and files of a command."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from webhook.cli.candidates import namespaces
from webhook.cluster.files.manifests import STANDARD_INPUT
from webhook.words.errors import FormatError


def _read_once(ctx: typer.Context, given: list[str] | None) -> list[str] | None:
    address = next((name for name in given or [] if name.startswith(("http://", "https://"))), "")
    if address:
        fix = f"Fetch it: curl -sSL {shlex.quote(address)} | gpu-topology {ctx.info_name} -f -"
        raise FormatError("--file", expected="a file, a directory or -", found=address, fix=fix)
    if (given or []).count(STANDARD_INPUT) > 1:
        raise typer.BadParameter("standard input can be read once: give - once")
    return given


FILE_OPTION = typer.Option(
    "--file",
    "-f",
    callback=_read_once,
    metavar="FILE|DIR|-",
    help="YAML or JSON manifest, directory of .yaml, .yml and .json files, or - for stdin; may be given again.",
)
RECURSIVE_OPTION = typer.Option("--recursive", "-R", help="Read the directories of -f with all below them.")
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAMESPACE",
        autocompletion=namespaces,
        help="Whose pods; without, that of the current context, or of all files.",
    ),
]
AllNamespacesOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Pods of all namespaces.")]
StateOption = Annotated[
    Path | None, typer.Option("--state", metavar="DIR", help="State directory, such as 'state save' writes.")
]


def refuse_both(namespace: str | None, *, everywhere: bool) -> None:
    """Raises BadParameter if a namespace is given and all of them are."""
    if namespace is not None and everywhere:
        raise typer.BadParameter("give either a namespace or all of them", param_hint="--all-namespaces")

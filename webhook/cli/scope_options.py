"""Of which pods, and of which files: the options of commands that look at a whole cluster."""

from pathlib import Path
from typing import Annotated

import typer

NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAMESPACE",
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

"""``gpu-topology inject``: what the webhook would do to a workload, without a cluster."""

import difflib
import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.complaint import complain

if TYPE_CHECKING:
    from webhook.workload import Injection


class Output(enum.StrEnum):
    """What to print."""

    YAML = "yaml"
    PATCH = "patch"
    DIFF = "diff"


def inject(
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="Manifest of any workload kind; - reads stdin.")
    ],
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="State directory: namespaces/*.yaml, cluster.yaml.")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file.")] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="For manifests that name none.")
    ] = "default",
    output: Annotated[Output, typer.Option("--output", "-o", help="yaml, patch (JSON) or diff.")] = Output.YAML,
) -> None:
    """Print a workload as the webhook would change it.

    Warnings and refusals go to stderr. A refused pod ends with exit code 1 and nothing on stdout.
    """
    from webhook.cli.inputs import read_settings, read_state
    from webhook.workload import inject_manifest

    text, source = _read(file)
    _, policy = read_settings(config)
    injection = inject_manifest(text, source, policy, read_state(state), default_namespace=namespace)
    for line in injection.notes():
        complain(line)
    if injection.refused:
        raise typer.Exit(1)
    typer.echo(_render(output, text, source, injection), nl=False)


def _read(file: str) -> tuple[str, str]:
    from webhook.cli.standard_input import standard_input
    from webhook.manifest.documents import reason
    from webhook.model.errors import ManifestError

    try:
        if file == "-":
            return standard_input().read().decode(), "standard input"
        return Path(file).read_bytes().decode(), file  # as bytes: line ends stay as they are
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{file}: cannot be read: {reason(error)}") from None


def _render(output: Output, text: str, source: str, injection: "Injection") -> str:
    if output is Output.YAML:
        return injection.text
    if output is Output.DIFF:
        return unified_diff(text, injection.text, source)
    from webhook.model.review import encode_patch

    return "".join(encode_patch(document).decode() + "\n" for document in injection.patches())


def unified_diff(before: str, after: str, source: str) -> str:
    """What changed, as ``diff -u`` prints it."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), source, f"{source} (injected)"
    )
    return "".join(lines)

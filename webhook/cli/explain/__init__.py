"""``gpu-topology explain``: why a pod has NVLink between its GPUs, or has not."""

import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from webhook.cli.kubeconfig import usual_kubeconfig
from webhook.cli.manifests import FILE_OPTION, RECURSIVE_OPTION, STANDARD_INPUT
from webhook.cli.topology.output import UNMET, Output
from webhook.cli.versions import HAMI_OPTION, KUBERNETES_OPTION

if TYPE_CHECKING:
    from webhook.cli.explain.known import Known

_NAME = re.compile(r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)")
"""A namespace and a pod: k8s.io/apimachinery, pkg/util/validation."""


class _Files(NamedTuple):
    """What ``-f`` and ``-R`` said."""

    named: list[str] | None
    recursive: bool


def explain(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    pod: Annotated[str | None, typer.Argument(metavar="[NAMESPACE/POD]", help="Which pod.")] = None,
    file: Annotated[list[str] | None, FILE_OPTION] = None,
    recursive: Annotated[bool, RECURSIVE_OPTION] = False,
    node: Annotated[str, typer.Option(metavar="NODE", help="Where the pod is; without, its own node.")] = "",
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="State directory: pods/*.yaml, namespaces/*.yaml, nodes/*.json, cluster.yaml."
        ),
    ] = None,
    topology: Annotated[
        str | None, typer.Option(metavar="FILE", help="Topology of the node, in any form that 'topology show' reads.")
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of the cluster; without, as kubectl finds it.")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file of the webhook.")] = None,
    hami_version: Annotated[str, HAMI_OPTION] = "",
    kubernetes_version: Annotated[str, KUBERNETES_OPTION] = "",
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT,
) -> None:
    """Tell which conditions for NVLink hold for a pod, which do not, and what to do.

    Works for pods that are not injected too. Ends with exit code 0 if no condition fails, else with 1.
    """
    from webhook.cli.explain.known import evidence_of
    from webhook.cli.explain.output import as_json, report_lines
    from webhook.cli.inputs import read_settings
    from webhook.cli.topology.colours import print_lines
    from webhook.cli.versions import given_versions, overruled
    from webhook.explain.explain import explain as judge

    wanted = _parse_name(pod)
    if topology == STANDARD_INPUT and file and STANDARD_INPUT in file:
        raise typer.BadParameter("standard input can be read once: give one of them as a file", param_hint="--topology")
    given = given_versions(hami_version, kubernetes_version)
    settings, policy = read_settings(config)
    policy = overruled(policy, given)
    registration = settings.certificates.webhook_configuration
    with _look(wanted, _Files(file, recursive), state, kubeconfig, registration) as known:
        report = judge(evidence_of(known, policy, node=node, topology=topology, is_configured=config is not None))
    if output is Output.JSON:
        typer.echo(as_json(report), nl=False)
    else:
        print_lines(report_lines(report))
    if report.fails:
        raise typer.Exit(UNMET)


def _parse_name(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    match = _NAME.fullmatch(text)
    if not match:
        from webhook.model.errors import shorten

        raise typer.BadParameter(f"expected NAMESPACE/POD, found {shorten(text)}", param_hint="NAMESPACE/POD")
    return match[1], match[2]


def _look(
    wanted: tuple[str, str] | None, files: _Files, state: Path | None, kubeconfig: Path | None, registration: str
) -> AbstractContextManager["Known"]:
    """Where the pod is to be found: in files, or in a cluster."""
    if kubeconfig is not None and (files.named is not None or state is not None):
        raise typer.BadParameter("give either files or a cluster", param_hint="--kubeconfig")
    if files.named is None and wanted is None:
        raise typer.BadParameter("expected NAMESPACE/POD or --file", param_hint="NAMESPACE/POD")
    if files.named is not None or state is not None:
        from webhook.cli.explain.files import known_from_files
        from webhook.cli.manifests import read_files

        given = None if files.named is None else list(read_files(files.named, recursive=files.recursive))
        return nullcontext(known_from_files(wanted, given, state))
    if wanted is None:
        raise TypeError("a pod without a file has a name")
    from webhook.cli.explain.cluster import known_from_cluster

    return known_from_cluster(*wanted, kubeconfig or usual_kubeconfig(), registration=registration)

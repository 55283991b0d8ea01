"""``gpu-topology explain``: why a pod has NVLink between its GPUs, or has not."""

import os
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.topology.output import UNMET, Output

if TYPE_CHECKING:
    from webhook.cli.explain.known import Known

_NAME = re.compile(r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)")
"""A namespace and a pod: k8s.io/apimachinery, pkg/util/validation."""


def explain(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    pod: Annotated[str | None, typer.Argument(metavar="[NAMESPACE/POD]", help="Which pod.")] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Manifests of pods, as kubectl get -o yaml; - reads stdin."),
    ] = None,
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
    hami_version: Annotated[str, typer.Option(metavar="VERSION", help="HAMi's version such as 2.9.0.")] = "",
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT,
) -> None:
    """Tell which conditions for NVLink hold for a pod, which do not, and what to do.

    Works for pods that are not injected too. Ends with exit code 0 if no condition fails, else with 1.
    """
    from webhook.cli.explain.known import evidence_of
    from webhook.cli.explain.output import as_json, as_text
    from webhook.cli.inputs import read_settings
    from webhook.explain.explain import explain as judge

    wanted = _parse_name(pod)
    if file == topology == "-":
        raise typer.BadParameter("standard input can be read once: give one of them as a file", param_hint="--topology")
    _check_version(hami_version)
    _, policy = read_settings(config)
    with _look(wanted, file, state, kubeconfig) as known:
        report = judge(evidence_of(known, policy, node=node, topology=topology, hami_version=hami_version))
    typer.echo(as_json(report) if output is Output.JSON else as_text(report), nl=False)
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


def _check_version(text: str) -> None:
    from webhook.model.errors import FormatError, shorten
    from webhook.model.version import Version

    try:
        if text:
            Version.parse(text, source="--hami-version")
    except FormatError as error:
        said = f"expected {error.expected}, found {shorten(error.found)}"
        raise typer.BadParameter(said, param_hint="--hami-version") from None


def _look(
    wanted: tuple[str, str] | None, file: str | None, state: Path | None, kubeconfig: Path | None
) -> AbstractContextManager["Known"]:
    """Where the pod is to be found: in files, or in a cluster."""
    if kubeconfig is not None and (file is not None or state is not None):
        raise typer.BadParameter("give either files or a cluster", param_hint="--kubeconfig")
    if file is None and wanted is None:
        raise typer.BadParameter("expected NAMESPACE/POD or --file", param_hint="NAMESPACE/POD")
    if file is not None or state is not None:
        from webhook.cli.explain.files import known_from_files

        return nullcontext(known_from_files(wanted, file, state))
    if wanted is None:
        raise TypeError("a pod without a file has a name")
    from webhook.cli.explain.cluster import known_from_cluster

    return known_from_cluster(*wanted, kubeconfig or _usual_kubeconfig())


def _usual_kubeconfig() -> Path | None:
    """Where kubectl looks: the first file of ``KUBECONFIG``, the pod's own account (``None``), ``~/.kube/config``.

    Raises:
        ConfigError: there is none of them.
    """
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    found = next((path for path in named if path.exists()), None)
    if found is not None:
        return found
    if not named and "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    usual = Path(os.environ.get("HOME", "/")) / ".kube" / "config"
    if not named and usual.exists():
        return usual
    from webhook.model.errors import ConfigError, shorten

    if named:
        said = f"$KUBECONFIG names {shorten(os.environ['KUBECONFIG'])}, of which nothing exists"
    else:
        said = f"$KUBECONFIG is not set, and ~/.kube/config ({usual}) does not exist"
    raise ConfigError(f"no kubeconfig: {said}. Give --kubeconfig FILE, or --file or --state to do without a cluster")

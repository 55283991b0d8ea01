"""``gpu-topology explain``: the reasons for or against NVLink between the GPUs of a pod."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from webhook.cli.candidates import namespaces, nodes, pods
from webhook.cli.kubeconfig import ContextOption, KubeconfigOption, refuse_cluster, wanted_cluster
from webhook.cli.output import NOT_KNOWN, UNMET, Output
from webhook.cli.scope_options import FILE_OPTION, RECURSIVE_OPTION
from webhook.cli.versions import HAMI_OPTION, KUBERNETES_OPTION
from webhook.cluster.files.manifests import STANDARD_INPUT

if TYPE_CHECKING:
    from webhook.cli.explain.read import Found
    from webhook.cluster.snapshot.pod_reference import Wanted
    from webhook.decisions.configuration import AdmitPolicy
    from webhook.insight.explain.findings import Judgement


class _Files(NamedTuple):
    """The values of ``-f`` and ``-R``."""

    named: list[str] | None
    recursive: bool
    namespace: str
    """The value of ``-n``."""


class _Asked(NamedTuple):
    """The policy, its file, and the node of the pod."""

    policy: "AdmitPolicy"
    config: Path | None
    node: str


class _Where(NamedTuple):
    """The options that name the cluster."""

    kubeconfig: Path | None
    context: str


def explain(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    pod: Annotated[
        str | None,
        typer.Argument(
            metavar="[POD | NAMESPACE/POD | KIND/NAME]",
            autocompletion=pods,
            help="Which pod; of a workload, such as deploy/train, job/train or sts/train, the newest.",
        ),
    ] = None,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAMESPACE",
            autocompletion=namespaces,
            help="Of the pod; without, that of the context.",
        ),
    ] = "",
    file: Annotated[list[str] | None, FILE_OPTION] = None,
    recursive: Annotated[bool, RECURSIVE_OPTION] = False,
    node: Annotated[
        str, typer.Option(metavar="NODE", autocompletion=nodes, help="Where the pod is; without, its own node.")
    ] = "",
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="State directory: pods/*.yaml, namespaces/*.yaml, nodes/*.json, cluster.yaml."
        ),
    ] = None,
    topology: Annotated[
        str | None, typer.Option(metavar="FILE", help="Topology of the node, in any form that 'topology show' reads.")
    ] = None,
    nccl_log: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="What NCCL printed with NCCL_DEBUG=INFO; - is standard input. May be repeated."
        ),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file of the webhook.")] = None,
    hami_version: Annotated[str, HAMI_OPTION] = "",
    kubernetes_version: Annotated[str, KUBERNETES_OPTION] = "",
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also the conditions that hold.")] = False,
) -> None:
    """Tell whether a pod has NVLink between its GPUs, which conditions fail, and what to do.

    Works for pods that are not injected too. Ends with exit code 0 if the pod has NVLink or nothing to join, with 1 if
    it has none or cannot be read, with 3 if that is not known.
    """
    from webhook.cli.explain.output import as_json, report_lines
    from webhook.cli.explain.read import read_logs, told_node
    from webhook.cli.inputs import read_settings
    from webhook.cli.topology.colours import print_lines
    from webhook.cli.versions import given_versions, overruled
    from webhook.insight.explain.pods import PodReports

    wanted = _parse_name(pod, namespace)
    if [topology, *(file or ()), *(nccl_log or ())].count(STANDARD_INPUT) > 1:
        hint = "--nccl-log" if nccl_log and STANDARD_INPUT in nccl_log else "--topology"
        raise typer.BadParameter("standard input can be read once: give one of them as a file", param_hint=hint)
    given = given_versions(hami_version, kubernetes_version)
    policy = overruled(read_settings(config)[1], given)
    asked = _Asked(policy, config, node)
    found = _look(wanted, _Files(file, recursive, namespace), state, _Where(kubeconfig, context), asked)
    log = read_logs(nccl_log) if nccl_log else None
    report = PodReports(found.snapshot).of(found.pod, told_node(topology, node), log)
    if output is Output.JSON:
        typer.echo(as_json(report), nl=False)
    else:
        print_lines(report_lines(report, is_verbose=verbose))
    raise typer.Exit(_exit_code(report.judgement))


def _exit_code(judgement: "Judgement") -> int:
    from webhook.insight.explain.findings import Nvlink

    if judgement.nvlink is Nvlink.NO:
        return UNMET
    return NOT_KNOWN if judgement.nvlink is Nvlink.UNKNOWN else 0


def _parse_name(text: str | None, namespace: str) -> "Wanted | None":
    from webhook.cluster.snapshot.pod_reference import NoNameError, parse_wanted

    if text is None:
        return None
    if text.endswith((".yaml", ".yml", ".json")) and Path(text).is_file():
        raise typer.BadParameter(f"{text} is a file. Give it with -f: gpu-topology explain -f {text}", param_hint="POD")
    try:
        return parse_wanted(text, namespace)
    except NoNameError as error:
        raise typer.BadParameter(str(error), param_hint="POD") from None


def _look(wanted: "Wanted | None", files: _Files, state: Path | None, where: _Where, asked: _Asked) -> "Found":
    """Find the pod, in files or in a cluster."""
    from webhook.cli.explain.choice import GivenFiles
    from webhook.cli.explain.read import from_cluster, of_files
    from webhook.cluster.files.manifests import read_files
    from webhook.cluster.snapshot.pod_reference import POD
    from webhook.words.names import DEFAULT_NAMESPACE

    in_files = files.named is not None or state is not None
    if in_files:
        refuse_cluster(where.kubeconfig, where.context, "give either files or a cluster")
        if wanted and wanted.kind is not POD and files.named is None:
            raise typer.BadParameter("only in a cluster the pods of a workload can be found", param_hint="POD")
    if files.named is None and wanted is None:
        raise typer.BadParameter("expected POD or --file", param_hint="POD")
    if in_files:
        given = None
        if files.named is not None:
            texts = list(read_files(files.named, recursive=files.recursive))
            given = GivenFiles(texts, files.namespace or DEFAULT_NAMESPACE)
        return of_files(wanted, given, state, asked.policy, asked.config)
    if wanted is None:
        raise TypeError("a pod without a file has a name")
    from webhook.cli.kubeconfig import namespace_of_context

    cluster = wanted_cluster(where.kubeconfig, where.context)
    if not wanted.namespace:
        wanted = wanted._replace(namespace=namespace_of_context(cluster))
    return from_cluster(wanted, cluster, asked.policy, asked.config, asked.node)

"""``gpu-topology analyze``: the problems of a cluster's GPU pods, and of the components that serve them."""

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from webhook.cli.columns import WideOption
from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import (
    ContextOption,
    KubeconfigOption,
    namespace_of_context,
    refuse_cluster,
    wanted_cluster,
)
from webhook.cli.output import UNMET
from webhook.cli.scope_options import (
    FILE_OPTION,
    RECURSIVE_OPTION,
    AllNamespacesOption,
    NamespaceOption,
    StateOption,
    refuse_both,
)
from webhook.cli.versions import HAMI_OPTION
from webhook.insight.analyze.diagnosis import Severity
from webhook.words.errors import GpuTopologyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.cluster.api.contexts import Context
    from webhook.cluster.files.manifests import ManifestFile
    from webhook.cluster.snapshot.documents import ReadSnapshot
    from webhook.decisions.cluster_facts import ClusterFacts
    from webhook.decisions.configuration import AdmitPolicy

UNREADABLE = 2


class Format(enum.StrEnum):
    """The form of the output."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def analyze(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    file: Annotated[list[str] | None, FILE_OPTION] = None,
    recursive: Annotated[bool, RECURSIVE_OPTION] = False,
    state: StateOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file of the webhook.")] = None,
    hami_version: Annotated[str, HAMI_OPTION] = "",
    output: Annotated[Format, typer.Option("--output", "-o", help="text, json or sarif.")] = Format.TEXT,
    wide: WideOption = False,
    fail_on: Annotated[
        Severity,
        typer.Option(
            help="End with exit code 1 if there is a finding of this severity, or a worse one; a hint never counts."
        ),
    ] = Severity.WARNING,
) -> None:
    """Tell what is wrong with the GPU pods of a cluster, and with what serves them.

    Ends with exit code 0 if nothing is found, with 1 if something is, with 2 if the cluster or a file cannot be read.
    """
    from webhook.cli.analyze.output import as_json, print_table
    from webhook.cli.analyze.sarif import as_sarif
    from webhook.cli.explain.preparation import with_templates
    from webhook.cli.versions import given_versions
    from webhook.insight.analyze.analyzers import analyze as judge

    refuse_both(namespace, everywhere=all_namespaces)
    given = given_versions(hami_version, "")
    if state is not None:
        refuse_cluster(kubeconfig, context, "give either a state directory or a cluster")
    try:
        files, rules = _Files(file, recursive, state), _rules(config, given)
        if kubeconfig is None and not context and (file is not None or state is not None):
            wanted, read = namespace, _read_files(files, namespace, rules)
        else:
            cluster = wanted_cluster(kubeconfig, context)
            wanted, read = _read_cluster(files, cluster, rules, namespace, everywhere=all_namespaces)
        snapshot = with_templates(read)
        judged = judge(snapshot, namespace=wanted)
    except GpuTopologyError as error:
        complain(f"gpu-topology: {error}")
        raise typer.Exit(UNREADABLE) from None
    if output is Format.TEXT:
        print_table(judged, snapshot, namespace=wanted, wide=wide)
    else:
        typer.echo(as_json(judged) if output is Format.JSON else as_sarif(judged.findings, read.sources), nl=False)
    if any(each.severity.rank <= fail_on.rank for each in judged.findings if each.severity is not Severity.HINT):
        raise typer.Exit(UNMET)


class _Files(NamedTuple):
    """The values of ``-f``, ``-R`` and ``--state``."""

    named: list[str] | None
    recursive: bool
    state: Path | None

    def read(self) -> "Iterator[ManifestFile]":
        """Read the manifests."""
        from webhook.cluster.files.manifests import read_files

        return read_files(self.named or [], recursive=self.recursive)


class _Rules(NamedTuple):
    """The configuration file, and its policy with the version of the option."""

    config: Path | None
    policy: "AdmitPolicy"


def _rules(config: Path | None, given: "ClusterFacts") -> _Rules:
    from webhook.cli.inputs import read_settings
    from webhook.cli.versions import overruled

    return _Rules(config, overruled(read_settings(config)[1], given))


def _read_files(files: _Files, namespace: str | None, rules: _Rules) -> "ReadSnapshot":
    from webhook.cli.snapshots import from_files
    from webhook.words.names import DEFAULT_NAMESPACE

    return from_files(
        files.read(),
        files.state,
        namespace,
        rules.config,
        policy=rules.policy,
        default_namespace=DEFAULT_NAMESPACE if files.named else "",
    )


def _read_cluster(
    files: _Files, cluster: "Context | None", rules: _Rules, namespace: str | None, *, everywhere: bool
) -> "tuple[str | None, ReadSnapshot]":
    """Return the namespace whose pods are judged (None: all), and the snapshot."""
    from webhook.cli.snapshots import from_cluster

    wanted = None if everywhere else namespace or namespace_of_context(cluster)
    return wanted, from_cluster(cluster, wanted, rules.config, files=files.read(), policy=rules.policy)

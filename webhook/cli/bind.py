"""``gpu-topology bind``: the changes of the webhook to a pod that goes to a node."""

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from webhook.cli.candidates import namespaces, nodes, pods
from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import (
    ContextOption,
    KubeconfigOption,
    OfflineOption,
    UsedCluster,
    cluster_if_any,
    namespace_of_context,
    wanted_cluster,
)
from webhook.words.names import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from webhook.cluster.api.contexts import Context
    from webhook.cluster.snapshot.pod_surroundings import Around
    from webhook.decisions.claims.evidence import KnownClaims
    from webhook.decisions.configuration import AdmitPolicy
    from webhook.decisions.resolve.node import Sources
    from webhook.objects.binding import Binding, BindOutcome
    from webhook.objects.pod import Namespace, Pod


class Output(enum.StrEnum):
    """The form of the output."""

    YAML = "yaml"
    JSON = "json"


class _Found(NamedTuple):
    """A pod with the sources of further facts."""

    pod: "Pod"
    source: str
    """The name of the pod in messages."""
    namespace: "Namespace"
    node: "Callable[[str], Sources]"
    """A function that returns the known facts about a node."""
    claims: "Callable[[str], KnownClaims]"
    """A function that returns the known claims of the pod, with the devices of a node."""


def bind(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    pod: Annotated[
        str | None,
        typer.Argument(
            metavar="[POD | NAMESPACE/POD]",
            autocompletion=pods,
            help="A pod of the cluster; of a workload, deploy/train, the newest.",
        ),
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE", help="Manifest of an injected pod; - reads stdin.")
    ] = None,
    node: Annotated[
        str,
        typer.Option(metavar="NODE", autocompletion=nodes, help="Where it goes; without, the node of its allocation."),
    ] = "",
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="State directory: nodes/*.json, namespaces/*.yaml, claims/*.yaml."),
    ] = None,
    topology: Annotated[
        str | None, typer.Option(metavar="FILE", help="Topology of the node, in any form that 'topology show' reads.")
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    offline: OfflineOption = False,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file.")] = None,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAMESPACE",
            autocompletion=namespaces,
            help="For a pod that names none; without, that of the cluster's context, or default.",
        ),
    ] = "",
    output: Annotated[
        Output, typer.Option("--output", "-o", help="yaml: the Binding; json: the outcome.")
    ] = Output.YAML,
) -> None:
    """Print the Binding as the webhook would change it; of a pod that has its node, as it was changed.

    The pod is one of a cluster, by its name, or one of a file. What is around it is that of the cluster as it is now;
    of the pod of a file, no cluster is asked with --offline, --state or --topology, and where kubectl would find none.
    Nothing is changed there.
    Warnings and refusals go to stderr. A refused Binding ends with exit code 1.
    """
    from webhook.cli.inputs import read_settings
    from webhook.cli.topology.source import sources_in
    from webhook.objects.binding import BIND_SENTENCES
    from webhook.words.outcome import Kind

    _, policy = read_settings(config)
    if (pod is None) == (file is None):
        raise typer.BadParameter("expected either POD or --file", param_hint="POD")
    if file is None:
        cluster: UsedCluster | None = _cluster_of_pod(state, kubeconfig, context, offline=offline)
    else:
        in_files, described = state is not None, topology is not None
        cluster = cluster_if_any(kubeconfig, context, offline=offline, in_files=in_files, described=described)
    with _found(pod, file, state, cluster, namespace, policy) as found:
        target = node or _allocated_node(found.pod, found.source)
        nodes = (lambda name: sources_in(topology, name)) if topology else found.node
        binding, outcome = _outcome(found, target, nodes, policy)
    for warning in outcome.warnings:
        complain(f"warning: {warning}")
    if output is Output.JSON:
        typer.echo(_as_json(outcome, target))
    elif outcome.allowed:
        if outcome.kind is Kind.SKIP:
            complain(f"skipped: {BIND_SENTENCES[outcome.reason]}")
        typer.echo(_as_yaml(binding, outcome), nl=False)
    if not outcome.allowed:
        complain(f"refused: {outcome.message}")
        raise typer.Exit(1)


def _cluster_of_pod(state: Path | None, kubeconfig: Path | None, context: str, *, offline: bool) -> UsedCluster:
    """Return the cluster of a pod that is named.

    Raises:
        BadParameter: something else is given, which only the pod of a file has.
        ConfigError: there is no kubeconfig.
    """
    for option, is_given in (("--state", state is not None), ("--offline", offline)):
        if is_given:
            raise typer.BadParameter("a pod of the cluster needs none: give --file", param_hint=option)
    return UsedCluster(wanted_cluster(kubeconfig, context))


@contextmanager
def _found(
    name: str | None,
    file: str | None,
    state: Path | None,
    cluster: UsedCluster | None,
    namespace: str,
    policy: "AdmitPolicy",
) -> "Iterator[_Found]":
    """Open the pod with its surroundings, until the end of the block."""
    if file is not None and cluster is None:
        yield _in_files(file, state, namespace or DEFAULT_NAMESPACE, policy)
        return
    from webhook.cluster.snapshot.model import Setting
    from webhook.cluster.snapshot.pod_surroundings import around

    where = cluster.where if cluster else None
    with around(where, Setting(policy=policy), complain) as asked:
        if file is not None:
            yield _file_in_cluster(asked, file, namespace or namespace_of_context(where), policy)
        else:
            yield _in_cluster(asked, name or "", namespace, where)


def _in_files(file: str, state: Path | None, namespace: str, policy: "AdmitPolicy") -> _Found:
    from webhook.cli.inputs import namespace_in, read_claims, read_pod_file, read_state

    pod, source, own = read_pod_file(file, namespace, policy)
    known, place = read_state(state), _namespace(pod)

    def claims(_node: str) -> "KnownClaims":
        return read_claims(state, policy.claims).joined(own).known(pod, place, policy.claims)

    return _Found(pod, source, namespace_in(known, place), known.node if known else _nothing, claims)


def _file_in_cluster(cluster: "Around", file: str, namespace: str, policy: "AdmitPolicy") -> _Found:
    from webhook.cli.inputs import read_pod_file

    pod, source, own = read_pod_file(file, namespace, policy)
    found = _around(cluster, pod, source)

    def claims(node: str) -> "KnownClaims":
        return found.claims(node).under(own.known(pod, _namespace(pod), policy.claims))

    return found._replace(claims=claims)


def _in_cluster(cluster: "Around", name: str, namespace: str, where: "Context | None") -> _Found:
    from webhook.cluster.snapshot.pod_reference import NoNameError, parse_wanted
    from webhook.cluster.snapshot.workloads import find_pod
    from webhook.objects.manifest.pods import decode_pod, in_namespace, to_json

    try:
        wanted = parse_wanted(name, namespace)
    except NoNameError as error:
        raise typer.BadParameter(str(error), param_hint="POD") from None
    if not wanted.namespace:
        wanted = wanted._replace(namespace=namespace_of_context(where))
    source = f"{wanted.kind.word} {wanted.namespace}/{wanted.name}"
    pod = decode_pod(to_json(find_pod(cluster, wanted), source), source)
    return _around(cluster, in_namespace(pod, DEFAULT_NAMESPACE), source)


def _around(cluster: "Around", pod: "Pod", source: str) -> _Found:
    place = _namespace(pod)
    cluster.look_at_namespace(place)

    def node(name: str) -> "Sources":
        cluster.look_at_node(name)
        return cluster.snapshot().sources(name)

    def claims(name: str) -> "KnownClaims":
        cluster.look_at_claims(pod, place, name)
        return cluster.snapshot().claims.of(pod, place)

    return _Found(pod, source, cluster.snapshot().namespace(place), node, claims)


def _namespace(pod: "Pod") -> str:
    return (pod.metadata.namespace if pod.metadata else None) or DEFAULT_NAMESPACE


def _outcome(
    found: _Found, target: str, nodes: "Callable[[str], Sources]", policy: "AdmitPolicy"
) -> "tuple[Binding, BindOutcome]":
    """Return the Binding as the scheduler would send it, and the webhook's outcome for it."""
    from webhook.decisions.bind.binding import begin, finish
    from webhook.decisions.claims.allocations import NOTHING_GIVEN, given_gpus
    from webhook.objects.binding import Binding, BindOutcome, Target
    from webhook.objects.pod import Metadata

    pod, metadata, given = found.pod, found.pod.metadata or Metadata(), NOTHING_GIVEN
    binding = Binding(Metadata(name=metadata.name, namespace=metadata.namespace, uid=metadata.uid), Target(target))
    if policy.claims.enabled:
        of_pod = found.claims(target)
        given = given_gpus(pod, of_pod.claims, of_pod.pools, policy.claims, node=target)
    begun = begin(_unbound(pod), binding, found.namespace, policy, given)
    return binding, begun if isinstance(begun, BindOutcome) else finish(begun, policy, nodes(target))


def _unbound(pod: "Pod") -> "Pod":
    """Return the pod without its node, because manifests are often those of running pods."""
    from msgspec.structs import replace

    return replace(pod, spec=replace(pod.spec, node_name=None)) if pod.spec else pod


def _allocated_node(pod: "Pod", source: str) -> str:
    from webhook.decisions.allocation.reader import DIALECTS, allocated_node
    from webhook.words.errors import FormatError

    for dialect in DIALECTS:
        node = allocated_node(pod.annotations, family=dialect.family)
        if node:
            return node
    if pod.spec and pod.spec.node_name:  # allocations of claims do not name the node
        return pod.spec.node_name
    keys = ", ".join(dialect.node_key for dialect in DIALECTS if dialect.node_key)
    raise FormatError(source, expected=f"an annotation that names the node ({keys})", found="none", fix="Give --node")


def _nothing(_node: str) -> "Sources":
    from webhook.decisions.resolve.node import Sources

    return Sources()


def _as_json(outcome: "BindOutcome", node: str) -> str:
    import json

    document: dict[str, Any] = {
        "outcome": outcome.kind.value,
        "reason": outcome.reason.value,
        "node": node,
        "link": outcome.link,
        "satisfied": outcome.satisfied,
        "message": outcome.message,
        "warnings": outcome.warnings,
        "annotations": outcome.annotations,
    }
    return json.dumps(document, indent=2)


def _as_yaml(binding: "Binding", outcome: "BindOutcome") -> str:
    from webhook.objects.manifest.manifest import format_yaml

    metadata: dict[str, Any] = {}
    if binding.metadata:
        metadata = {"name": binding.metadata.name, "namespace": binding.metadata.namespace}
    if outcome.annotations:
        metadata["annotations"] = dict(outcome.annotations)
    target = {"apiVersion": "v1", "kind": "Node", "name": binding.node}
    return format_yaml({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})

"""``gpu-topology bind``: what the webhook would write onto a pod that goes to a node, without a cluster."""

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook.cli.complaint import complain

if TYPE_CHECKING:
    from webhook.model.binding import Binding, BindOutcome
    from webhook.model.pod import Pod
    from webhook.resolve.node import Sources


class Output(enum.StrEnum):
    """What to print."""

    YAML = "yaml"
    JSON = "json"


def bind(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="Manifest of an injected pod; - reads stdin.")
    ],
    node: Annotated[str, typer.Option(metavar="NODE", help="Where it goes; without, the node of its allocation.")] = "",
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="State directory: nodes/*.json, namespaces/*.yaml, claims/*.yaml."),
    ] = None,
    topology: Annotated[
        str | None, typer.Option(metavar="FILE", help="Topology of the node, in any form that 'topology show' reads.")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file.")] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="For a pod that names none.")
    ] = "default",
    output: Annotated[
        Output, typer.Option("--output", "-o", help="yaml: the Binding; json: the outcome.")
    ] = Output.YAML,
) -> None:
    """Print the Binding as the webhook would change it; of a pod that has its node, as it was changed.

    Warnings and refusals go to stderr. A refused Binding ends with exit code 1.
    """
    from webhook.bind.binding import begin, finish
    from webhook.claims.given import NOTHING_GIVEN, given_gpus
    from webhook.cli.inputs import namespace_in, read_claims, read_pod_file, read_settings, read_state
    from webhook.cli.topology.source import sources_in
    from webhook.model.binding import BIND_SENTENCES, Binding, BindOutcome, Target
    from webhook.model.outcome import Kind
    from webhook.model.pod import Metadata

    _, policy = read_settings(config)
    pod, source, claims = read_pod_file(file, namespace, policy)
    known = read_state(state)
    target = node or _allocated_node(pod, source)
    metadata = pod.metadata or Metadata()
    of_namespace = metadata.namespace or namespace
    binding = Binding(Metadata(name=metadata.name, namespace=metadata.namespace, uid=metadata.uid), Target(target))
    given = NOTHING_GIVEN
    if policy.claims.enabled:
        of_pod = read_claims(state, policy.claims).joined(claims).known(pod, of_namespace, policy.claims)
        given = given_gpus(pod, of_pod.claims, of_pod.pools, policy.claims, node=target)
    begun = begin(_unbound(pod), binding, namespace_in(known, of_namespace), policy, given)
    if isinstance(begun, BindOutcome):
        outcome = begun
    else:
        sources = sources_in(topology, target) if topology else known.node(target) if known else _nothing()
        outcome = finish(begun, policy, sources)
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


def _unbound(pod: "Pod") -> "Pod":
    """The pod as it was before it had a node: manifests are often those of running pods."""
    from msgspec.structs import replace

    return replace(pod, spec=replace(pod.spec, node_name=None)) if pod.spec else pod


def _allocated_node(pod: "Pod", source: str) -> str:
    from webhook.allocation.read import DIALECTS, allocated_node
    from webhook.model.errors import FormatError

    for dialect in DIALECTS:
        node = allocated_node(pod.annotations, family=dialect.family)
        if node:
            return node
    if pod.spec and pod.spec.node_name:  # claims do not say it
        return pod.spec.node_name
    keys = ", ".join(dialect.node_key for dialect in DIALECTS if dialect.node_key)
    raise FormatError(source, expected=f"an annotation that names the node ({keys})", found="none", fix="Give --node")


def _nothing() -> "Sources":
    from webhook.resolve.node import Sources

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
    from webhook.manifest.documents import format_yaml

    metadata: dict[str, Any] = {}
    if binding.metadata:
        metadata = {"name": binding.metadata.name, "namespace": binding.metadata.namespace}
    if outcome.annotations:
        metadata["annotations"] = dict(outcome.annotations)
    target = {"apiVersion": "v1", "kind": "Node", "name": binding.node}
    return format_yaml({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})

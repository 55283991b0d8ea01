"""``gpu-topology topology plan``: the GPUs that a job would get, on one node or several."""

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import ContextOption, KubeconfigOption, OfflineOption, cluster_if_any
from webhook.cli.output import NOT_KNOWN, UNMET, Output
from webhook.cli.topology.job_options import Gpus, MinBandwidth, MinLevel, RequireNvlink, SameNuma, check_bandwidth
from webhook.cli.topology.notes import print_notes
from webhook.cli.topology.source import File, Node, State, check_source, read_nodes, read_source
from webhook.words.choices import NodePolicy, Objective

if TYPE_CHECKING:
    from rich.text import Text

    from webhook.cluster.api.contexts import Where
    from webhook.decisions.place.survey import Job
    from webhook.hardware.topology.model import NodeTopology
    from webhook.hardware.topology.planning.plan import PlanRequest
    from webhook.hardware.topology.selection.choice import Choice
    from webhook.hardware.topology.selection.request import Request

_BUSY = "--busy"
_IN_A_CLUSTER = "A cluster as it is"
_SEVERAL = "Several nodes: --state without --node"


class GpuPolicy(enum.StrEnum):
    """A copy of ``webhook.hardware.topology.selection.request.Policy``, whose import would slow down every command."""

    BEST_FIT = "best-fit"
    SPREAD = "spread"


def plan(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    gpus: Gpus,
    file: File = None,
    state: State = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    offline: OfflineOption = False,
    node: Node = None,
    busy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NODE:]INDICES", help="GPUs in use, 0,3 or node-1:0,3: indices or UUIDs. May be repeated."
        ),
    ] = None,
    policy: Annotated[GpuPolicy | None, typer.Option(help="How to choose the GPUs of one node: best-fit.")] = None,
    require_nvlink: RequireNvlink = False,
    min_level: MinLevel = None,
    same_numa: SameNuma = False,
    min_bandwidth: MinBandwidth = 0.0,
    node_policy: Annotated[
        NodePolicy | None,
        typer.Option(help="How to choose nodes, within the best class: best-fit.", rich_help_panel=_SEVERAL),
    ] = None,
    max_nodes: Annotated[
        int | None, typer.Option(metavar="COUNT", min=1, help="At most so many.", rich_help_panel=_SEVERAL)
    ] = None,
    min_gpus_per_node: Annotated[
        int | None, typer.Option(metavar="COUNT", min=1, help="At least so many on each.", rich_help_panel=_SEVERAL)
    ] = None,
    network_bandwidth: Annotated[
        float | None,
        typer.Option(metavar="GB/S", help="GB/s per direction of each node; else its NICs'.", rich_help_panel=_SEVERAL),
    ] = None,
    objective: Annotated[
        Objective | None,
        typer.Option(help="As placement.objective of the planner: bandwidth.", rich_help_panel=_IN_A_CLUSTER),
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json.")] = Output.TEXT,
) -> None:
    """Say which GPUs a job would get: of a cluster as it is, a state directory, or one node.

    Without files it is the cluster, and this machine with --offline or where kubectl would find no cluster.
    Ends with exit code 1 if too few are free, or if a constraint cannot be met; then the nearest choice is printed.
    Ends with exit code 3 if it is not known how the GPUs are linked.
    """
    from webhook.hardware.topology.selection.request import Constraints

    over_nodes = {
        "--node-policy": node_policy,
        "--max-nodes": max_nodes,
        "--min-gpus-per-node": min_gpus_per_node,
        "--network-bandwidth": network_bandwidth,
    }
    check_source(file, state)
    in_files = file is not None or state is not None
    cluster = cluster_if_any(kubeconfig, context, offline=offline, in_files=in_files)
    check_bandwidth("--min-bandwidth", min_bandwidth, zero=True)
    if network_bandwidth is not None:
        check_bandwidth("--network-bandwidth", network_bandwidth, zero=False)
    constraints = Constraints(
        require_nvlink=require_nvlink, min_level=min_level, min_bandwidth=min_bandwidth, same_numa=same_numa
    )
    if cluster is None:
        _refuse("this is for a cluster as it is", {"--objective": objective})
    if cluster is None and (state is None or node is not None):
        _refuse("this is for several nodes: --state without --node", over_nodes)
        from webhook.hardware.topology.selection.request import Policy, Request

        topology = read_source(file, state, node)
        held = _busy(busy or [], [topology])[topology.node]
        print_notes([topology])
        request = Request(count=gpus, policy=Policy(policy or "best-fit"), constraints=constraints, busy=held)
        _plan_on_one(topology, request, output)
        return
    from webhook.hardware.topology.planning import plan as planning

    asked = planning.PlanRequest(
        count=gpus,
        policy=node_policy or NodePolicy.BEST_FIT,
        constraints=constraints,
        max_nodes=max_nodes,
        min_gpus_per_node=min_gpus_per_node or 1,
        network_bandwidth=network_bandwidth,
    )
    if cluster is not None:
        from webhook.decisions.place.survey import Job
        from webhook.hardware.topology.selection.request import Policy

        job = Job(
            request=asked,
            policy=Policy(policy or "best-fit"),
            objective=objective or Objective.BANDWIDTH,
            node=node or "",
        )
        _plan_in_cluster(cluster.where, job, busy or [], output)
    elif state is not None:
        _refuse("on several nodes best-fit chooses the GPUs; see --node-policy", {"--policy": policy})
        topologies = list(read_nodes(state).values())
        held_by_node = _busy(busy or [], topologies)
        print_notes(topologies)
        _plan_on_several(topologies, held_by_node, asked, output)


def _refuse(why: str, options: Mapping[str, object]) -> None:
    """Raises BadParameter if one of these options is given."""
    for name, value in options.items():
        if value is not None:
            raise typer.BadParameter(why, param_hint=name)


def _busy(options: Sequence[str], topologies: Sequence["NodeTopology"]) -> dict[str, frozenset[int | str]]:
    """Return the GPUs of ``--busy`` by their node, which may be left out if there is only one.

    Raises:
        BadParameter: there is no such node, or no such GPU.
    """
    from webhook.words.errors import shorten

    nodes = {topology.node: topology for topology in topologies}
    found: dict[str, frozenset[int | str]] = {name: frozenset() for name in nodes}
    for option in options:
        name, _, listed = option.rpartition(":")
        name = name or (topologies[0].node if len(nodes) == 1 else "")
        if name not in nodes:
            expected = "expected a known node and its GPUs, such as node-1:0,3"
            raise typer.BadParameter(f"{expected}, found {shorten(option)}", param_hint=_BUSY)
        found[name] |= {_index(nodes[name], word.strip()) for word in listed.split(",")}
    return found


def _index(topology: "NodeTopology", word: str) -> int:
    from webhook.words.errors import shorten

    uuids = {gpu.index: gpu.uuid for gpu in topology.gpus} | {gpu.index: gpu.uuid for gpu in topology.lost}
    for index, uuid in uuids.items():
        if word and word in (str(index), uuid):
            return index
    expected = f"node {topology.node}: expected indices or UUIDs of its GPUs"
    raise typer.BadParameter(f"{expected}, found {shorten(word)}", param_hint=_BUSY)


def _plan_on_one(topology: "NodeTopology", request: "Request", output: Output) -> None:
    from webhook.cli.topology.plan_document import choice_document
    from webhook.hardware.topology.selection.choice import NoChoice, select
    from webhook.hardware.topology.sets import models_of
    from webhook.insight.drawings.choices import chosen_text
    from webhook.words.errors import GpuTopologyError

    found = select(topology, request)
    if isinstance(found, NoChoice):
        raise GpuTopologyError(f"node {topology.node}: {found.reason}")
    if output is Output.JSON:
        _print_document(choice_document(topology, found))
    else:
        models = sorted(models_of(topology, found.gpus))
        _print_text(chosen_text(topology.node, models, found, request.constraints))
    _report_unmet({topology.node: found})


def _plan_on_several(
    topologies: Sequence["NodeTopology"],
    busy: Mapping[str, frozenset[int | str]],
    request: "PlanRequest",
    output: Output,
) -> None:
    from webhook.cli.topology.plan_document import plan_document
    from webhook.hardware.topology.planning.plan import NoPlan
    from webhook.hardware.topology.planning.plan import plan as plan_nodes
    from webhook.hardware.topology.selection.request import NodeFree
    from webhook.insight.drawings.choices import plan_text
    from webhook.words.errors import GpuTopologyError

    found = plan_nodes([NodeFree(topology, busy[topology.node]) for topology in topologies], request)
    if isinstance(found, NoPlan):
        raise GpuTopologyError(found.reason)
    if output is Output.JSON:
        _print_document(plan_document({topology.node: topology for topology in topologies}, found))
    else:
        _print_text(plan_text(found, request.constraints))
    _report_unmet({share.node: share.choice for share in found.shares})


def _plan_in_cluster(cluster: "Where", job: "Job", busy: Sequence[str], output: Output) -> None:
    from webhook.cli.topology.plan_document import plan_document
    from webhook.cli.topology.planner_view import read_world
    from webhook.decisions.place.survey import survey, take
    from webhook.insight.drawings.choices import survey_text
    from webhook.words.errors import GpuTopologyError

    world, node = read_world(cluster), job.node
    known = {name: each.topology for name, each in world.nodes.items() if each.topology}
    if node and node not in world.nodes:
        raise GpuTopologyError(f"there is no node {node} in this cluster")
    if node and node not in known:
        raise GpuTopologyError(f"node {node}: nothing is known of its GPUs")
    take(world, {name: _uuids(known[name], held) for name, held in _busy(busy, list(known.values())).items() if held})
    found = survey(world, job)
    if output is Output.TEXT:
        _print_text(survey_text(found, job.request.constraints))
    if found.plan is None:
        raise GpuTopologyError(found.reason)
    print_notes(list(found.topologies.values()))
    if output is Output.JSON:
        _print_document(plan_document(dict(found.topologies), found.plan))
    _report_unmet({share.node: share.choice for share in found.plan.shares})


def _uuids(topology: "NodeTopology", held: Collection[int | str]) -> list[str]:
    return [gpu.uuid for gpu in topology.gpus if gpu.index in held]


def _print_document(document: dict[str, Any]) -> None:
    import json

    typer.echo(json.dumps(document, indent=2))


def _print_text(text: "Text") -> None:
    from webhook.cli.topology.colours import coloured_console

    console = coloured_console()
    if console:
        console.print(text)
    else:
        typer.echo(text.plain)


def _report_unmet(choices: Mapping[str, "Choice"]) -> None:
    """Print the constraints that were given up, and end with exit code 1 if there are any.

    Where it is not known how the GPUs are linked, it ends with exit code 3: a constraint on links may be met.
    """
    if any(choice.doubt for choice in choices.values()):
        raise typer.Exit(NOT_KNOWN)
    unmet = [(node, given_up) for node, choice in choices.items() for given_up in choice.unmet]
    for node, given_up in unmet:
        complain(f"gpu-topology: node {node}: {given_up.constraint} is not met: {given_up.evidence}")
    if unmet:
        raise typer.Exit(UNMET)

"""``gpu-topology claim``: a ResourceClaimTemplate that can only be allocated to linked GPUs."""

import enum
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import ContextOption, KubeconfigOption, OfflineOption, UsedCluster, cluster_if_any
from webhook.cli.output import NOT_KNOWN
from webhook.cli.topology.job_options import Gpus, MinBandwidth, RequireNvlink, SameNuma, check_bandwidth
from webhook.cli.topology.source import File, Node, State, check_source, read_nodes, read_source

if TYPE_CHECKING:
    from webhook.cluster.api.contexts import Where
    from webhook.decisions.claims.slices import Pools
    from webhook.hardware.topology.model import NodeTopology
    from webhook.words.version import Version

    _Sources = tuple[dict[str, NodeTopology], frozenset[str] | None, Pools]
    """All topologies by node, the requested nodes, None for all, and the devices that DRA drivers publish."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LABEL = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9./_-]{0,316}[A-Za-z0-9]|[A-Za-z0-9])=([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)
_NAME_LENGTH, _NAMESPACE_LENGTH = 253, 63


class Output(enum.StrEnum):
    """The form of the output."""

    YAML = "yaml"
    JSON = "json"


def claim(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    gpus: Gpus,
    require_nvlink: RequireNvlink = False,
    min_bandwidth: MinBandwidth = 0.0,
    same_numa: SameNuma = False,
    file: File = None,
    state: State = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    offline: OfflineOption = False,
    node: Node = None,
    node_pool: Annotated[
        str | None,
        typer.Option(metavar="KEY=VALUE", help="Of a cluster: only GPUs of nodes with this label."),
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Of the template: linked-gpus-COUNT.")] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Of the template.")] = "",
    device_class: Annotated[
        str, typer.Option(metavar="NAME", help="DeviceClass of the GPUs, served by NVIDIA's driver.")
    ] = "gpu.nvidia.com",
    kubernetes_version: Annotated[
        str, typer.Option(metavar="VERSION", help="Kubernetes' version, 1.34 or later.")
    ] = "1.36",
    output: Annotated[Output, typer.Option("--output", "-o", help="yaml or json.")] = Output.YAML,
) -> None:
    """Print a ResourceClaimTemplate for GPUs that are linked as required, and for no others.

    Each alternative in it is a set of GPUs of the given topologies in which any so many are linked; the best come
    first. A comment says what they are; with -o json it goes to stderr. Ends with exit code 1 if there is no such set,
    with 3 if there is none and the links of a node are not known.
    """
    from webhook.cli.topology.notes import print_notes
    from webhook.decisions.claim_templates.alternatives import find_alternatives
    from webhook.decisions.claim_templates.partitions import by_partitions, lost_nodes, no_partition, unknown_nodes
    from webhook.decisions.claim_templates.template import (
        MAX_GPUS,
        SAME_NUMA_COMMENT,
        TemplateNames,
        check_version,
        comment,
        omissions,
        refusal,
        template,
    )
    from webhook.decisions.configuration import NVIDIA_CLAIMS
    from webhook.hardware.topology.selection.request import Constraints, Request
    from webhook.words.errors import GpuTopologyError

    check_bandwidth("--min-bandwidth", min_bandwidth, zero=True)
    if not 2 <= gpus <= MAX_GPUS:
        raise typer.BadParameter(f"expected 2 to {MAX_GPUS}: so many one claim can hold", param_hint="--gpus")
    if not require_nvlink and not min_bandwidth:
        raise typer.BadParameter("give it or --min-bandwidth: else a plain claim does", param_hint="--require-nvlink")
    names = TemplateNames(
        name=_named("--name", name or f"linked-gpus-{gpus}", _NAME_LENGTH),
        namespace=_named("--namespace", namespace, _NAMESPACE_LENGTH) if namespace else "",
        device_class=_named("--device-class", device_class, _NAME_LENGTH),
    )
    check_version(_version(kubernetes_version))
    in_files = file is not None or state is not None
    cluster = cluster_if_any(kubeconfig, context, offline=offline, in_files=in_files)
    topologies, wanted, pools = _sources(file, state, cluster, node, node_pool)
    request = Request(count=gpus, constraints=Constraints(require_nvlink=require_nvlink, min_bandwidth=min_bandwidth))
    chosen = [topology for each, topology in topologies.items() if wanted is None or each in wanted]
    print_notes(chosen)
    found = find_alternatives(list(topologies.values()), request, wanted)
    if not found.alternatives:
        if any(topology.unread for topology in chosen):
            complain(f"gpu-topology: {refusal(request, chosen)}")
            raise typer.Exit(NOT_KNOWN)
        raise GpuTopologyError(refusal(request, chosen))
    listed = ((each, pools.whole_gpus(NVIDIA_CLAIMS.name, each)) for each in topologies)
    published = {each: devices for each, devices in listed if devices is not None}
    partitioned = by_partitions(found, gpus, topologies, published, wanted)
    found = partitioned.found
    if not found.alternatives:
        raise GpuTopologyError(no_partition(gpus, partitioned.without, published))
    lost = lost_nodes(partitioned, gpus, published)
    lines = [*comment(request, found, topologies, wanted), *lost, *unknown_nodes(partitioned)]
    if same_numa:
        lines.append(SAME_NUMA_COMMENT)
    if node_pool is not None:
        lines.append(f"For pods with the nodeSelector {node_pool.replace('=', ': ', 1)}: a template cannot hold one.")
    document = template(names, gpus, found.alternatives, same_numa=same_numa)
    if output is Output.JSON:
        complain("\n".join(lines))
    else:
        for line in (*omissions(found, topologies, wanted), *lost):
            complain(line)
    text = _json(document) if output is Output.JSON else _yaml(document, lines)
    typer.echo(text.encode(), nl=False)  # a manifest is UTF-8 in any setting of the terminal


def _sources(
    file: str | None, state: Path | None, cluster: UsedCluster | None, node: str | None, pool: str | None
) -> "_Sources":
    from webhook.cluster.files.state import load_claims
    from webhook.decisions.claims.slices import Pools
    from webhook.decisions.configuration import ClaimSettings

    check_source(file, state)
    if cluster is not None:
        return _in_cluster(cluster.where, node, pool)
    if pool is not None:
        raise typer.BadParameter("labels of nodes are known only in a cluster", param_hint="--node-pool")
    if state is not None:
        nodes = read_nodes(state)
        return nodes, _one(nodes, node), load_claims(state).pools(ClaimSettings())
    topology = read_source(file, state, node)
    return {topology.node: topology}, None, Pools()


def _named(option: str, text: str, longest: int) -> str:
    if len(text) > longest or not _NAME.fullmatch(text) or (option == "--namespace" and "." in text):
        raise typer.BadParameter(
            f"expected a name of Kubernetes: at most {longest} lower case letters, digits and -", param_hint=option
        )
    return text


def _version(text: str) -> "Version":
    from webhook.cli.versions import read_version

    version = read_version(text, "--kubernetes-version")
    if version is None:
        raise typer.BadParameter("expected a version such as 1.36, found none", param_hint="--kubernetes-version")
    return version


def _one(nodes: "dict[str, NodeTopology]", node: str | None) -> frozenset[str] | None:
    from webhook.words.errors import GpuTopologyError, shorten

    if node is None:
        return None
    if node not in nodes:
        raise GpuTopologyError(f"node {shorten(node)}: nothing is known of its GPUs, or there is no such node")
    return frozenset([node])


def _in_cluster(cluster: "Where", node: str | None, pool: str | None) -> "_Sources":
    from webhook.cli.topology.planner_view import read_world_and_devices
    from webhook.words.errors import GpuTopologyError

    match = _LABEL.fullmatch(pool) if pool is not None else None
    if pool is not None and match is None:
        raise typer.BadParameter("expected a label such as pool=training", param_hint="--node-pool")
    world, pools = read_world_and_devices(cluster)
    topologies = {name: each.topology for name, each in world.nodes.items() if each.topology}
    wanted = _one(topologies, node)
    if pool is None:
        return topologies, wanted, pools
    key, _, value = pool.partition("=")
    labelled = frozenset(
        name for name, each in world.nodes.items() if each.record and each.record.labels.get(key) == value
    )
    if not labelled:
        raise GpuTopologyError(f"--node-pool: no node has the label {pool}")
    return topologies, labelled if wanted is None else labelled & wanted, pools


def _json(document: dict[str, Any]) -> str:
    import json

    return json.dumps(document, indent=2) + "\n"


def _yaml(document: dict[str, Any], comment: list[str]) -> str:
    import io

    from ruamel.yaml import YAML
    from ruamel.yaml.scalarstring import walk_tree

    from webhook.words.printable import printable

    walk_tree(document)  # keep line breaks of expressions
    yaml, out = YAML(), io.StringIO()
    yaml.width = 1 << 20
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(document, out)
    return "".join(f"# {printable(line)}\n" for line in comment) + out.getvalue()

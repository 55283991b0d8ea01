"""The explained pod with the snapshot around it: from a cluster, or from files."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from webhook.cli.complaint import complain
from webhook.cli.snapshots import from_files, setting_of
from webhook.cluster.api.contexts import Where
from webhook.cluster.files.claims import load_claims
from webhook.cluster.files.manifests import STANDARD_INPUT, ManifestFile
from webhook.cluster.snapshot.model import KnownPod, Snapshot
from webhook.cluster.snapshot.pod_reference import Wanted
from webhook.cluster.snapshot.pod_surroundings import around
from webhook.cluster.snapshot.workloads import find_pod
from webhook.decisions.configuration import AdmitPolicy
from webhook.insight.explain.evidence import Reading, group_of, policy_for
from webhook.insight.explain.pods import ToldNode
from webhook.words.errors import FormatError, ManifestError
from webhook.words.printable import printable

_LISTED = 8


class Found(NamedTuple):
    """A pod with its snapshot."""

    pod: KnownPod
    snapshot: Snapshot


def from_cluster(wanted: Wanted, where: Where, policy: AdmitPolicy, config: Path | None, node: str) -> Found:
    """Read the present pod, with everything around it that the caller may see.

    Unreadable objects other than the pod are left out, with a note on standard error.

    Args:
        wanted: The pod, or the workload that makes it, with its namespace.
        where: The cluster.
        policy: The configuration, with the versions of the options.
        config: The file of the configuration; None for all defaults.
        node: The node of the pod; empty: the node that the pod names.

    Raises:
        GpuTopologyError: there is no such pod, or a request fails.
    """
    setting = setting_of(config, policy)
    with around(where, setting, complain) as cluster:
        known = cluster.add_pod(find_pod(cluster, wanted))
        own = policy_for(known.pod, policy, is_configured=config is not None)
        cluster.look(known, node=node, with_claims=own.claims.enabled)
        if group := group_of(known.pod, cluster.snapshot().namespace(known.namespace), own):
            cluster.look_at_group(known.namespace, group)
        return Found(known, cluster.snapshot())


def of_files(
    wanted: tuple[str, str] | None,
    files: Sequence[ManifestFile] | None,
    state: Path | None,
    policy: AdmitPolicy,
    config: Path | None,
) -> Found:
    """Read the pod in manifests, or in ``pods/*.yaml`` of a state directory.

    Args:
        wanted: Namespace and name; None if the manifests hold one pod.
        files: The manifests.
        state: The state directory.
        policy: The configuration, with the versions of the options.
        config: The file of the configuration; None for all defaults.

    Raises:
        GpuTopologyError: a file cannot be read, or the pod is missing.
    """
    if state is not None and policy.claims.enabled:
        load_claims(state)  # a malformed claim is an error here, and is left out where thousands are judged
    read = from_files(files or (), state, None, config, policy=policy, are_strict=True)
    if files is None:
        return Found(_choose(read.documents.pods, wanted, f"{state}/pods"), read.snapshot)
    if not read.given and read.others:
        remedy = "Give the Pods themselves: kubectl get pods -l KEY=VALUE -o yaml"
        raise ManifestError(f"{_sources(files)}: expected Pods, found {read.others[0]}. {remedy}")
    return Found(_choose(read.given, wanted, _sources(files)), read.snapshot)


def told_node(topology: str | None, node: str) -> ToldNode:
    """Return the node that the options name, with the topology that they give."""
    if not topology:
        return ToldNode(node)
    from webhook.cli.topology.source import sources_in

    teller = "standard input" if topology == STANDARD_INPUT else f"file {printable(topology)}"
    reading = Reading(node_teller=teller, show=f"-f {shlex.quote(printable(topology))}")
    return ToldNode(node, sources_in(topology, node or None), reading)


def _sources(files: Sequence[ManifestFile]) -> str:
    return files[0].source if len(files) == 1 else f"{files[0].source} and {len(files) - 1} more files"


def _choose(pods: Iterable[KnownPod], wanted: tuple[str, str] | None, source: str) -> KnownPod:
    known = list(pods)
    matching = [pod for pod in known if wanted in (None, (pod.namespace, pod.name))]
    if len(matching) == 1:
        return matching[0]
    there = [f"{pod.namespace}/{pod.name}" for pod in (matching or known)]
    listed = ", ".join(there[:_LISTED]) + (f" and {len(there) - _LISTED} more" if len(there) > _LISTED else "")
    if wanted and not matching:
        is_known = any(pod.namespace == wanted[0] for pod in known)
        missing = f"pod {'/'.join(wanted)}" if is_known or not known else f"pod of namespace {wanted[0]}"
        raise ManifestError(f"{source}: there is no {missing}" + (f"; the pods there are {listed}" if listed else ""))
    raise FormatError(
        source,
        expected=f"the pod {'/'.join(wanted)}, once" if wanted else "one Pod",
        found=listed or "no Pod",
        fix="" if wanted else "Name one: NAMESPACE/POD",
    )

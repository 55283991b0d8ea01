"""The explained pod with the snapshot around it: from a cluster, or from files."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

from webhook.cli.complaint import complain
from webhook.cli.explain.choice import GivenFiles, choose, choose_pod
from webhook.cli.snapshots import from_files, setting_of
from webhook.cluster.api.contexts import Where
from webhook.cluster.files.manifests import STANDARD_INPUT
from webhook.cluster.files.standard_input import standard_input
from webhook.cluster.files.state import load_claims
from webhook.cluster.snapshot.model import KnownPod, Snapshot
from webhook.cluster.snapshot.pod_reference import Wanted
from webhook.cluster.snapshot.pod_surroundings import around
from webhook.cluster.snapshot.workloads import find_pod
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.request.ranks import job_label
from webhook.insight.explain.evidence import Reading, group_of, policy_for
from webhook.insight.explain.nccl_log import NcclLog, read_nccl_logs
from webhook.insight.explain.pods import ToldNode
from webhook.words import names
from webhook.words.errors import ManifestError
from webhook.words.names import DEFAULT_NAMESPACE
from webhook.words.printable import printable

_LINE_LIMIT = 64 * 1024
_LOG_LIMIT = 512 * 1024 * 1024


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
            cluster.look_at_pods(known.namespace, names.GROUP, group)
        if job := job_label(known.pod):
            cluster.look_at_pods(known.namespace, *job)
        return Found(known, cluster.snapshot())


def of_files(
    wanted: Wanted | None,
    files: GivenFiles | None,
    state: Path | None,
    policy: AdmitPolicy,
    config: Path | None,
) -> Found:
    """Read the pod in manifests, or in ``pods/*.yaml`` of a state directory.

    Args:
        wanted: The pod, or the workload whose template is explained; None if the manifests hold one pod.
        files: The manifests; None for the pods of the state directory.
        state: The state directory.
        policy: The configuration, with the versions of the options.
        config: The file of the configuration; None for all defaults.

    Raises:
        GpuTopologyError: a file cannot be read, or the pod is missing.
    """
    if state is not None and policy.claims.enabled:
        load_claims(state)  # a malformed claim is an error here, and is left out where thousands are judged
    if files is None:
        read = from_files((), state, None, config, policy=policy)
        named = wanted and wanted._replace(namespace=wanted.namespace or DEFAULT_NAMESPACE)
        return Found(choose_pod(read.documents.pods, named, f"{state}/pods"), read.snapshot)
    read = from_files(
        files.texts, state, None, config, policy=policy, are_strict=True, default_namespace=files.namespace
    )
    return Found(choose(read, wanted, files.source), read.snapshot)


def told_node(topology: str | None, node: str) -> ToldNode:
    """Return the node that the options name, with the topology that they give."""
    if not topology:
        return ToldNode(node)
    from webhook.cli.topology.source import sources_in

    teller = "standard input" if topology == STANDARD_INPUT else f"file {printable(topology)}"
    reading = Reading(node_teller=teller, show=f"-f {shlex.quote(printable(topology))}")
    return ToldNode(node, sources_in(topology, node or None), reading)


def read_logs(files: Sequence[str]) -> NcclLog:
    """Return what NCCL printed in these logs; ``-`` is standard input.

    Raises:
        ManifestError: a log cannot be read, or is too large.
    """
    return read_nccl_logs(map(_lines, files))


def _lines(file: str) -> Iterator[str]:
    left = _LOG_LIMIT
    try:
        with nullcontext(standard_input()) if file == STANDARD_INPUT else Path(file).open("rb") as log:
            for line in iter(partial(log.readline, _LINE_LIMIT), b""):
                left -= len(line)
                if left < 0:
                    most = _LOG_LIMIT // 1024**2
                    raise ManifestError(
                        f"{file}: expected a log of at most {most} MiB, found more. Give its NCCL lines"
                    )
                yield line.decode(errors="replace")
    except OSError as error:
        raise ManifestError(f"{file}: cannot be read: {error.strerror}") from None

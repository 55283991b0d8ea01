"""When GPUs are tried by the preflight, and which of its results are valid for a topology."""

from dataclasses import replace
from datetime import datetime, timedelta

from webhook.hardware.topology.model import NodeTopology, Preflight, Trial, TrialResult
from webhook.words.timestamp import format_timestamp, parse_timestamp

NVLS_SINCE = 90
"""Compute capability 9.0: NCCL src/transport/nvls.cc."""
AGAIN_AFTER = timedelta(hours=1)
"""The shortest time between two trials while multicast does not work, or is not known to."""
AT_START_AFTER = timedelta(days=1)
"""The shortest time between two trials at the start of an agent while multicast works."""
NOT_PROMISED = Trial(result=TrialResult.UNKNOWN, problem="the driver says that these GPUs have no multicast")
"""NCCL asks the driver the same, and does not use NVLink SHARP then."""
NOT_TRIED = Trial(result=TrialResult.UNKNOWN, problem="it was not tried yet")
CARDS = 2
"""The cards of a multicast object. NCCL takes all cards of a job; two show whether NVSwitches form a team."""


def gpus_with_nvls(topology: NodeTopology) -> tuple[str, ...]:
    """Returns the UUIDs of the GPUs with which NCCL may use NVLink SHARP: new enough, and linked by NVSwitches."""
    return tuple(gpu.uuid for gpu in topology.gpus if gpu.uuid and gpu.switch_links and gpu.sm >= NVLS_SINCE)


def is_due(topology: NodeTopology, at: datetime, *, is_start: bool) -> bool:
    """Returns whether the GPUs are to be tried now.

    Args:
        topology: The topology, with the valid results of earlier trials.
        at: The time.
        is_start: Whether the agent has tried nothing since its start.
    """
    if len(gpus_with_nvls(topology)) < CARDS:
        return False
    known = topology.preflight
    began = parse_timestamp(known.at) if known else None
    if known is None or began is None or began > at:
        return True
    if known.multicast.result is TrialResult.WORKS or known.multicast == NOT_PROMISED:
        return is_start and at >= began + AT_START_AFTER
    return at >= began + AGAIN_AFTER


def with_trials(topology: NodeTopology, published: NodeTopology | None) -> NodeTopology:
    """Returns a discovered topology with the results that were published for its driver."""
    is_same = published is not None and published.driver_version == topology.driver_version
    return replace(topology, preflight=published.preflight) if published and is_same else topology


def begun(known: Preflight | None, at: datetime) -> Preflight:
    """Returns the mark of trials that begin now. The results of earlier ones hold until the new ones are known."""
    time = format_timestamp(at)
    return replace(known, at=time) if known else Preflight(at=time, multicast=NOT_TRIED, fabric=NOT_TRIED)


def newest(known: Preflight, found: Preflight) -> Preflight:
    """Returns the results after a trial. One that says nothing of the node takes no failure of it back."""
    return replace(
        found, multicast=_newest(known.multicast, found.multicast), fabric=_newest(known.fabric, found.fabric)
    )


def _newest(known: Trial, found: Trial) -> Trial:
    return known if found.result is TrialResult.UNKNOWN and known.result is TrialResult.FAILS else found


def multicast_problem(topology: NodeTopology) -> str:
    """Returns why a node fails to make multicast objects, in a sentence; empty if nothing is known against it."""
    tried = topology.preflight
    if not tried or tried.multicast.result is not TrialResult.FAILS:
        return ""
    return tried.multicast.problem or "the agent does not say why"

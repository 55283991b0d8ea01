"""Conditions on traffic: the bytes that the GPUs of the pod moved lately, and a hint where NVLink seems unused."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from webhook.decisions.place.occupancy import is_linked
from webhook.decisions.resolve.resolve import Resolution
from webhook.hardware.topology.model import Gpu
from webhook.hardware.traffic.model import PodTraffic, Traffic, bytes_text, is_recent, pod_traffic, unused
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, hint, holds
from webhook.insight.explain.words import gpus
from webhook.words.catalogue.traffic import NVLINK_HARDLY_USED, NVLINK_UNUSED
from webhook.words.choices import Profile
from webhook.words.listing import listed

TRAFFIC, NVLINK_USE = "traffic", "nvlink-use"


def traffic(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields the bytes moved in the last minutes, and a hint where NVLink seems unused; nothing without recent data."""
    resolution, found, started = examined.resolution, _recent(examined), examined.evidence.pod.running_since
    if found is None or resolution is None:
        return
    own = [gpu for given in resolution.containers for gpu in given.gpus]
    moved = pod_traffic(found, [gpu.uuid for gpu in own], started)
    if moved and (said := _said(moved)):
        length = f"last {round(moved.seconds / 60)} min"
        yield holds(TRAFFIC, f"in the {length} until {found.at:%H:%M:%S} UTC {gpus(own)} {said}")
    if examined.options.expect_nvlink:
        yield from _hints(examined, resolution, found, started)


def used_nvlink(examined: ExaminedPod) -> bool:
    """Returns whether the GPUs of the pod moved bytes over NVLink lately, and not suspiciously few."""
    resolution, found, started = examined.resolution, _recent(examined), examined.evidence.pod.running_since
    if found is None or resolution is None:
        return False
    sets = [[gpu.uuid for gpu in members] for members in _sets(examined, resolution) if len(members) > 1]
    moved = [pod_traffic(found, uuids, started) for uuids in sets]
    return bool(sets) and all(
        each and each.nvlink and not unused(found, uuids, started) for each, uuids in zip(moved, sets, strict=True)
    )


def _hints(
    examined: ExaminedPod, resolution: Resolution, found: Traffic, started: datetime | None
) -> Iterator[Finding]:
    for members in _sets(examined, resolution):
        uuids = [gpu.uuid for gpu in members]
        moved = unused(found, uuids, started)
        if moved and is_linked(resolution.node, uuids):
            over_nvlink, over_pcie = bytes_text(moved.nvlink or 0), bytes_text(moved.pcie or 0)
            entry = NVLINK_HARDLY_USED if moved.nvlink else NVLINK_UNUSED
            yield hint(
                NVLINK_USE,
                entry.say(gpus=gpus(members), minutes=moved.seconds // 60, pcie=over_pcie, nvlink=over_nvlink),
            )


def _recent(examined: ExaminedPod) -> Traffic | None:
    """Returns the recent traffic of the node; None where another pod may have a part of the pod's GPUs.

    Traffic is counted for GPUs, not for pods.
    """
    evidence, requests = examined.evidence, [container.request for container in examined.gpu_containers]
    found, at = evidence.sources.traffic, evidence.asked_at
    if found is None or at is None or not is_recent(found, at):
        return None
    return found if requests and all(request is not None and request.is_whole for request in requests) else None


def _sets(examined: ExaminedPod, resolution: Resolution) -> Sequence[Sequence[Gpu]]:
    """Returns the sets of GPUs that work together: all of the pod in ``pod-peers``, else those of each container."""
    if examined.profile is Profile.POD_PEERS:
        return [[gpu for given in resolution.containers for gpu in given.gpus]]
    return [given.gpus for given in resolution.containers]


def _said(moved: PodTraffic) -> str:
    """Returns the traffic in words; empty if the agent tells none.

    For example: ``moved 0 B over NVLink and 3 GB over PCIe (sent and received) and were utilised to 97%``.
    """
    told = ((moved.nvlink, "NVLink"), (moved.pcie, "PCIe"))
    amounts = listed(f"{bytes_text(number)} over {name}" for number, name in told if number is not None)
    said = [f"moved {amounts} (sent and received)"] if amounts else []
    if moved.utilization is not None:
        said.append(f"were utilised to {moved.utilization:.0%}")
    return listed(said)

"""The pods that ask for GPUs, as an overview shows them."""

from collections.abc import Sequence
from typing import NamedTuple

from webhook.cluster.snapshot.model import KnownPod, Snapshot
from webhook.decisions.bind.injection import injected_profile
from webhook.decisions.request.claims import read_claims
from webhook.decisions.request.resources import read_requests, unrecognized
from webhook.hardware.topology.connections import nvlink_capacity
from webhook.hardware.topology.model import Gpu
from webhook.hardware.traffic.model import PodTraffic
from webhook.insight.analyze.pods import holder_of
from webhook.insight.explain.findings import Judgement, Nvlink
from webhook.insight.explain.start import Verified, verified
from webhook.insight.overview.holdings import Held
from webhook.insight.overview.links import Linked, Worth
from webhook.insight.overview.model import Finding, Pod
from webhook.insight.overview.waits import waits_for
from webhook.objects.planner_signs import PlannerSigns
from webhook.objects.pod import Pod as DecodedPod
from webhook.objects.pod import PodSpec
from webhook.words import names
from webhook.words.choices import Profile
from webhook.words.outcome import Refused
from webhook.words.printable import fitted

NOT_JUDGED = Judgement(Nvlink.UNKNOWN, "the conditions of the pod are not judged yet")
_PEERS = frozenset({Profile.POD_PEERS, Profile.NODE_PEERS})


class Asked(NamedTuple):
    """The request of a pod."""

    wanted: int | None
    """Number of cards or slices; None where claims decide, or where the request cannot be read."""
    has_slices: bool
    """Whether the pod asks for parts of cards only."""
    profile: str
    """The profile with which the pod was injected; empty if it was not."""


def asked(pod: DecodedPod, snapshot: Snapshot) -> Asked | None:
    """Returns the request of a pod; None if it asks for no GPUs.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    try:
        requests = read_requests(pod, snapshot.policy.resources, snapshot.policy.default_count)
    except Refused:
        return Asked(None, has_slices=False, profile="")
    counted = [container.request for container in requests.containers if container.request]
    if counted or requests.mig:
        parts = requests.mig or not any(request.is_whole for request in counted)
        profile = injected_profile(requests.containers) or ""
        return Asked(sum(request.count for request in counted), has_slices=parts, profile=str(profile))
    if read_claims(pod, requests) is None and not any(unrecognized(pod, requests)):
        return None
    return Asked(None, has_slices=False, profile=_claimed_profile(pod))


def _claimed_profile(pod: DecodedPod) -> str:
    """Returns the profile that admission wrote into the containers of a pod with claims; empty if there is none."""
    spec = pod.spec or PodSpec()
    named = (
        variable
        for container in spec.containers or ()
        for variable in container.env or ()
        if variable.name == names.REMAP_PROFILE
    )
    return next((str(profile) for variable in named for profile in Profile if variable.is_literal(profile)), "")


class Subject(NamedTuple):
    """A pod with its request, its cards, and their links and traffic."""

    known: KnownPod
    pod: DecodedPod
    """The pod, decoded."""
    ask: Asked
    held: Held
    """The cards of the pod."""
    linked: Linked | None
    """The links of the cards of their node; None: not known."""
    moved: PodTraffic | None
    """The traffic of the cards in the last minutes; None: not known."""


def pod_of(
    subject: Subject, planner: PlannerSigns, findings: tuple[Finding, ...], judgement: Judgement = NOT_JUDGED
) -> Pod:
    """Returns a pod as the overview shows it.

    Args:
        subject: The pod.
        planner: The signs of a planner.
        findings: The findings about the pod.
        judgement: Whether the pod really has NVLink.
    """
    known, pod, ask, held, linked, moved = subject
    worth = _worth(ask, held, linked)
    is_verified, reason = verified(pod)
    pinned_to = held.node if held.is_chosen else ""
    return Pod(
        key=f"{known.namespace}/{known.name}",
        namespace=known.namespace,
        name=known.name,
        owner=holder_of(known, pod).owner,
        node=held.node or known.node,
        cards=held.cards,
        wanted=ask.wanted,
        profile=ask.profile,
        link=worth.link if worth else "",
        bandwidth=worth.bandwidth if worth else None,
        best=worth.best if worth else None,
        nvlink_bytes=moved.nvlink if moved else None,
        pcie_bytes=moved.pcie if moved else None,
        moved_seconds=moved.seconds if moved else 0,
        nvlink_use=_use(subject),
        verified=is_verified,
        why=fitted(reason),
        phase=fitted((pod.status.phase if pod.status else None) or ""),
        waits_for=waits_for(known, pod, planner, pinned_to=pinned_to),
        nvlink=judgement.nvlink,
        decided_by=judgement.code,
        findings=findings,
    )


def malformed_pod(known: KnownPod, findings: tuple[Finding, ...]) -> Pod:
    """Returns a pod with a field of a wrong type, of which only name, node and findings are known."""
    return Pod(
        key=f"{known.namespace}/{known.name}",
        namespace=known.namespace,
        name=known.name,
        owner="",
        node=known.node,
        cards=(),
        wanted=None,
        profile="",
        link="",
        bandwidth=None,
        best=None,
        verified=Verified.UNKNOWN,
        phase="",
        findings=findings,
    )


def _use(subject: Subject) -> float | None:
    if subject.moved is None or subject.linked is None:
        return None
    own = set(subject.held.cards)
    gpus = [gpu for gpu in subject.linked.topology.gpus if gpu.index in own]
    return nvlink_use(subject.moved, gpus) if len(gpus) == len(own) else None


def nvlink_use(moved: PodTraffic, gpus: Sequence[Gpu]) -> float | None:
    """Returns the share of what the NVLinks of the GPUs of a pod carry, in both directions together, that it used.

    It is None where the traffic or the capacity of a GPU is not known, or no link of a GPU works. Copies in one
    direction may reach a little more than the capacity, which is reckoned as NCCL does.

    Args:
        moved: The traffic of the pod.
        gpus: All of its GPUs.
    """
    capacities = [capacity for gpu in gpus if (capacity := nvlink_capacity(gpu)) is not None]
    if moved.nvlink is None or not capacities or len(capacities) < len(gpus):
        return None
    return moved.nvlink / (2 * sum(capacities) * 1e9 * moved.seconds)


def _worth(ask: Asked, held: Held, linked: Linked | None) -> Worth | None:
    """Returns the worth of the slowest set of cards that work together.

    Such a set is all cards of the pod in the profiles of peers, else the cards of one container.
    """
    if linked is None:
        return None
    sets = (held.cards,) if ask.profile in _PEERS else held.sets
    found = [worth for each in sets if (worth := linked.worth(each))]
    return min(found, key=lambda worth: worth.bandwidth, default=None)

"""The reasons why the planner does not choose the cards of a pod before HAMi does. docs/injection.md has the table.

HAMi follows the planner's choice only if it is exact: whole cards, none of them for an init container, because HAMi 2.9
adds these to the others (pkg/device/initContainer.go). The planner writes its choice into an annotation of HAMi's, so
it makes none if the user wrote that annotation. The planner may have to narrow the node affinity of a waiting pod,
which the API server refuses for an empty term (kubernetes pkg/apis/core/validation, validateNodeAffinityMutation).
"""

import enum
from collections.abc import Callable, Iterator

import msgspec

from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import Options
from webhook.decisions.request.claims import read_claims
from webhook.decisions.request.resources import PodRequests
from webhook.decisions.request.untreated_pods import Cause, untreated
from webhook.objects.pod import InitContainer, Namespace, Pod, PodSpec
from webhook.words import names
from webhook.words.catalogue import placement as catalogue
from webhook.words.catalogue.cards import NOT_TAKEN_BY_HAMI
from webhook.words.catalogue.entry import Message
from webhook.words.choices import Place, PlacementMode, Policy, Profile, Slices
from webhook.words.errors import shorten

_FAMILY = "hami"
_DAEMON_SET = "DaemonSet"
_MUTEX = "mutex"
"""HAMi's policy, since 2.10, by which a pod gets idle cards only (pkg/device/nvidia/device.go, Fit)."""


class Hindrance(enum.StrEnum):
    """The reason why the planner does not choose the cards of a pod."""

    OFF = "off"
    """The pod, its namespace or the configuration switches placement off."""
    OBSERVES = "observes"
    """``placement.mode: observe``: no pod waits."""
    NOT_REQUESTED = "not-requested"
    """``placement.mode: on-request``, and the pod asks for nothing of its cards."""
    NO_PLANNER = "no-planner"
    OBSERVED = "observed"
    """The pod is not injected: its profile is ``observe``."""
    STATIC = "static"
    DAEMON_SET = "daemonset"
    OTHER_FAMILY = "other-family"
    CLAIMS = "claims"
    ALLOCATED = "allocated"
    NODE_PRESET = "node-preset"
    OTHER_SCHEDULER = "other-scheduler"
    HAMI_WEBHOOK_IGNORED = "hami-webhook-ignored"
    OWN_LIST = "own-list"
    SLICES = "slices"
    INIT_GPUS = "init-gpus"
    EMPTY_AFFINITY_TERM = "empty-affinity-term"


class Unplaced(msgspec.Struct, frozen=True, gc=False):
    """A pod whose cards the planner does not choose."""

    hindrance: Hindrance
    message: Message
    """The hindrance for people."""


_OFF = Unplaced(Hindrance.OFF, catalogue.PLACE_OFF.say())
_MODES = {
    PlacementMode.OFF: Unplaced(Hindrance.OFF, catalogue.MODE_OFF.say()),
    PlacementMode.OBSERVE: Unplaced(Hindrance.OBSERVES, catalogue.MODE_OBSERVE.say()),
}
_SLICES_OFF = Unplaced(Hindrance.OFF, catalogue.SLICES_OFF.say())
_SEVERAL = Unplaced(Hindrance.SLICES, catalogue.PARTS_FOR_SEVERAL.say())
_IDLE_CARDS_ONLY = Unplaced(Hindrance.SLICES, catalogue.IDLE_CARDS_ONLY.say())
_NOT_REQUESTED = Unplaced(Hindrance.NOT_REQUESTED, catalogue.NOTHING_ASKED.say())
_NO_PLANNER = Unplaced(Hindrance.NO_PLANNER, catalogue.NO_PLANNER.say())
_OBSERVED = Unplaced(Hindrance.OBSERVED, catalogue.ONLY_OBSERVED.say())
_STATIC = Unplaced(Hindrance.STATIC, catalogue.STATIC_POD.say())
_DAEMON = Unplaced(Hindrance.DAEMON_SET, catalogue.OF_A_DAEMON_SET.say())
_OTHER_FAMILY = Unplaced(Hindrance.OTHER_FAMILY, catalogue.NO_CARDS_OF_HAMI.say())
_CLAIMS = Unplaced(Hindrance.CLAIMS, catalogue.BY_CLAIMS.say())
_ALLOCATED = Unplaced(Hindrance.ALLOCATED, catalogue.ALLOCATED.say())
_EMPTY_TERM = Unplaced(Hindrance.EMPTY_AFFINITY_TERM, catalogue.EMPTY_TERM.say())
_UNTREATED = {
    Cause.OTHER_SCHEDULER: Hindrance.OTHER_SCHEDULER,
    Cause.WEBHOOK_IGNORED: Hindrance.HAMI_WEBHOOK_IGNORED,
    Cause.NODE_PRESET: Hindrance.NODE_PRESET,
}


def not_waiting(policy: AdmitPolicy, cluster: ClusterFacts) -> Unplaced | None:
    """Returns why no pod at all waits for the planner; ``None`` if pods do.

    Args:
        policy: The configuration.
        cluster: The facts about the cluster.
    """
    found = _MODES.get(policy.placement.mode)
    return found or (None if cluster.has_planner else _NO_PLANNER)


def asks_for_cards(options: Options) -> bool:
    """Returns whether the options ask for something that only the choice of the cards can give."""
    return (
        options.require_nvlink
        or options.min_bandwidth is not None
        or options.policy is not Policy.BEST_EFFORT
        or options.group is not None
        or options.place_wait > 0
    )


def has_parts_or_one_card(requests: PodRequests) -> bool:
    """Returns whether a single container of the pod asks for GPUs, and for parts of them or for one."""
    asking = [container.request for container in requests.containers if container.request]
    return (
        not requests.mig
        and len(asking) == 1
        and (asking[0].count == 1 or not asking[0].is_whole)
        and asking[0].count > 0
    )


class PodToPlace(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod with all that decides whether the planner chooses its cards."""

    pod: Pod
    """The pod."""
    options: Options
    """The options of the pod, its namespace and the configuration together."""
    profile: Profile
    """The profile that is applied to the pod."""
    requests: PodRequests
    """The requests of its containers."""
    namespace: Namespace
    policy: AdmitPolicy
    cluster: ClusterFacts
    """The facts about the cluster, overruled by ``policy``."""
    is_admitted: bool = False
    """Whether every webhook has seen the pod, so that it does not change before it is scheduled."""


def unplaced(pod: PodToPlace) -> Unplaced | None:
    """Returns why the planner does not choose the cards of the pod; ``None`` if it does wherever pods wait for it.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    if pod.options.place is Place.OFF:
        return _OFF
    if pod.profile is Profile.OBSERVE:
        return _OBSERVED
    if pod.policy.placement.mode is PlacementMode.ON_REQUEST and not asks_for_cards(pod.options):
        return _NOT_REQUESTED
    return next(_hindrances(pod, _inexact), None)


def unplaced_as_it_is(pod: PodToPlace) -> Unplaced | None:
    """Returns why the planner does not choose the cards of a pod that is not injected; ``None`` if it does.

    HAMi follows the choice of parts of cards only for a single container: it may give two containers parts of one card
    and leave another card of the list out (pkg/scheduler/score.go).

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    if pod.options.place is Place.OFF:
        return _OFF
    if pod.policy.placement.slices is not Slices.ON:
        return _SLICES_OFF
    return next(_hindrances(pod, _of_several), None)


def _of_several(pod: PodToPlace) -> Iterator[Unplaced]:
    """Yields a hindrance where it is not certain which cards HAMi takes of a list."""
    asking = [container for container in pod.requests.containers if container.request]
    for container in asking:
        if isinstance(container.spec, InitContainer):
            yield Unplaced(Hindrance.INIT_GPUS, catalogue.GPUS_OF_INIT_CONTAINER.say(container=shorten(container.name)))
    if not has_parts_or_one_card(pod.requests):
        yield _SEVERAL
    if _MUTEX in pod.pod.annotations.get(names.HAMI_SCHEDULER_POLICY, ""):
        yield _IDLE_CARDS_ONLY


def _hindrances(to_place: PodToPlace, inexact: Callable[[PodToPlace], Iterator[Unplaced]]) -> Iterator[Unplaced]:
    """Yields the hindrances of a pod, in an order in which the cheap conditions come first."""
    pod, annotations = to_place.pod, to_place.pod.annotations
    requests = [each.request for each in to_place.requests.containers if each.request]
    if names.CONFIG_MIRROR in annotations:
        yield _STATIC
    families = {request.family for request in requests}
    if families == {CLAIM}:
        yield _CLAIMS
    if families != {_FAMILY}:
        yield _OTHER_FAMILY
    if names.HAMI_ALLOCATED_NODE in annotations:
        yield _ALLOCATED
    yield from _scheduled_elsewhere(to_place)
    for key in (names.USE_GPU_UUID, names.NO_USE_GPU_UUID):
        if key in annotations:
            yield Unplaced(Hindrance.OWN_LIST, catalogue.OWN_LIST.say(key=key))
    if pod.is_owned_by(_DAEMON_SET):
        yield _DAEMON
    yield from inexact(to_place)
    if any(to_place.cluster.is_claimed(request.resource) for request in requests):
        yield _CLAIMS
    if read_claims(pod, to_place.requests):
        yield _CLAIMS
    affinity = (pod.spec or PodSpec()).affinity
    if affinity and affinity.has_empty_node_term:
        yield _EMPTY_TERM


def _scheduled_elsewhere(pod: PodToPlace) -> Iterator[Unplaced]:
    for cause, message in untreated(pod.pod, pod.namespace, pod.policy, pod.cluster):
        if cause in _UNTREATED:
            yield Unplaced(_UNTREATED[cause], message)
    scheduler = (pod.pod.spec or PodSpec()).scheduler_name or names.DEFAULT_SCHEDULER
    if pod.is_admitted and scheduler != pod.policy.hami_scheduler_name:
        yield Unplaced(Hindrance.OTHER_SCHEDULER, NOT_TAKEN_BY_HAMI.say(scheduler=shorten(scheduler)))


def _inexact(pod: PodToPlace) -> Iterator[Unplaced]:
    """Yields a hindrance for each container with which the pod's cards are not exactly those that it asks for."""
    selected = pod.options.containers
    for container in pod.requests.containers:
        request, name = container.request, container.name
        if request is None:
            continue
        if isinstance(container.spec, InitContainer):
            yield Unplaced(Hindrance.INIT_GPUS, catalogue.GPUS_OF_INIT_CONTAINER.say(container=shorten(name)))
        # Admission turns slices of containers that it selects into whole cards.
        is_whole = request.is_whole or not pod.is_admitted
        if pod.requests.mig or not is_whole or (selected is not None and name not in selected):
            yield Unplaced(Hindrance.SLICES, catalogue.PARTS_OF_CARDS.say(container=shorten(name)))

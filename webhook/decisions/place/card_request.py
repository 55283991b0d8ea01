"""The request of a pod to its cards, as the planner needs it."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import Options, resolve_options
from webhook.decisions.place.card_parts import PartAsked
from webhook.decisions.place.group import group_size
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.request.demand import required
from webhook.decisions.request.observe_profile import observed_profile
from webhook.decisions.request.resources import WHOLE, GpuRequest, PodRequests
from webhook.decisions.resolve.demand import Requirements
from webhook.hardware.topology.selection.request import Constraints, Policy
from webhook.objects.pod import Namespace, Pod
from webhook.words import choices, names
from webhook.words.choices import Colocate, NodePolicy, Objective, OnViolation, Profile


@dataclass(frozen=True, kw_only=True, slots=True)
class CardsAsked:
    """The cards that one pod asks for."""

    count: int
    """The number of cards of all its containers together."""
    linked: bool
    """Whether the links between the cards matter: one container has several cards, or containers share theirs."""
    constraints: Constraints
    """The requirements for the set of cards."""
    policy: Policy
    """The policy that chooses the set on a node."""
    node_policy: NodePolicy
    """The policy that ranks nodes with equally good sets."""
    objective: Objective
    """The aim of the choice among sets that meet the constraints."""
    one_numa_node: bool
    """Whether HAMi gives cards of a single NUMA node only: ``nvidia.com/numa-bind``."""
    part: PartAsked | None = None
    """The part of each card; None: the cards are whole ones, for the pod alone."""
    types: tuple[str, ...]
    """Words of which the name of each card must have one; empty: any name is allowed."""
    not_types: tuple[str, ...]
    """Words that the name of no card may have."""

    def takes(self, name: str) -> bool:
        """Returns whether the pod accepts a card with this name.

        HAMi compares without case: pkg/device/nvidia/device.go, checkType.
        """
        full = f"NVIDIA-{name}".upper()
        if self.types and not any(word in full for word in self.types):
            return False
        return not any(word in full for word in self.not_types)

    def of_model(self, model: str, among: Collection[str]) -> "CardsAsked | None":
        """Returns the same request for cards of one model alone; None if it does not accept that model.

        Args:
            model: The name of the model.
            among: The names of all models that there are.
        """
        if not self.takes(model):
            return None
        longer = tuple(other.upper() for other in among if other != model and model.upper() in other.upper())
        return replace(self, types=(model.upper(),), not_types=(*self.not_types, *longer))


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The request of a pod to the planner."""

    cards: CardsAsked
    waits: bool
    """Whether the pod waits rather than run with cards that do not meet its requirements."""
    wait: float
    """Seconds for which the pod waits for better cards than those that are free."""
    group_size: int
    """The number of pods of its group that are placed together; 1: the pod is placed alone."""
    on_one_node: bool
    """Whether all pods of its group have to be on one node."""
    options: Options
    profile: Profile
    """The profile that applies to the pod."""


def read_asked_as_it_is(pod: Pod, namespace: Namespace, requests: PodRequests, policy: AdmitPolicy) -> Asked:
    """Reads the request of a pod that is not injected. Its cards are chosen as far as some are free.

    Args:
        pod: The pod.
        namespace: The namespace of the pod.
        requests: The requests of its containers, of which one asks for GPUs.
        policy: The configuration.

    Raises:
        FormatError: an option does not parse.
    """
    asked = read_asked(pod, namespace, requests, policy)
    request = next(container.request for container in requests.containers if container.request)
    part = None if request.is_whole else _part(request)
    cards = replace(asked.cards, part=part, constraints=Constraints(), policy=Policy.BEST_FIT)
    return replace(asked, cards=cards, waits=False, wait=0.0, group_size=1, on_one_node=False)


def asked_as_given(pod: PodRecord, objective: Objective) -> CardsAsked | None:
    """Returns the request to which HAMi gave a pod a single card, or parts of cards.

    None where the parts differ or are of one card, or the pod has several whole cards.

    Args:
        pod: A pod with cards.
        objective: The aim of the choice.
    """
    alike = {part._replace(uuid="") for part in pod.parts}
    if len(alike) > 1 or len(pod.held) != (len(pod.parts) or 1):
        return None
    return CardsAsked(
        count=len(pod.held),
        linked=len(pod.held) > 1,
        constraints=Constraints(),
        policy=Policy.BEST_FIT,
        node_policy=NodePolicy.BEST_FIT,
        objective=objective,
        one_numa_node=False,
        part=next((PartAsked(part.memory_mib, 0, part.cores) for part in alike), None),
        types=(),
        not_types=(),
    )


def _part(request: GpuRequest) -> PartAsked:
    """Returns the part of each card, with the values that HAMi takes where the pod has none.

    They are 100 % of the memory and no cores (pkg/device/nvidia/device.go, GenerateResourceRequests), unless HAMi's
    ``defaultMemory`` or ``defaultCores`` is set.
    """
    percentage = WHOLE if request.memory_percentage is None else request.memory_percentage
    return PartAsked(request.memory_mib, 0 if request.memory_mib else percentage, request.cores or 0)


def read_asked(pod: Pod, namespace: Namespace, requests: PodRequests, policy: AdmitPolicy) -> Asked:
    """Reads the request of a pod.

    Args:
        pod: A pod with the mark of injection.
        namespace: The namespace of the pod.
        requests: The requests of its containers.
        policy: The configuration.

    Raises:
        FormatError: an option does not parse.
    """
    options = resolve_options(policy.defaults, pod, namespace)
    profile = options.profile
    if profile is Profile.OBSERVE:
        profile = observed_profile(namespace, policy.defaults)
    counts = [container.request.count for container in requests.containers if container.request] or [0]
    requirements = required(options)
    linked = max(counts) > 1 or (profile.shares_gpus and sum(counts) > 1)
    annotations = pod.annotations
    return Asked(
        cards=CardsAsked(
            count=sum(counts),
            linked=linked,
            constraints=_constraints(requirements) if linked else Constraints(),
            policy=Policy.SPREAD if options.policy is choices.Policy.SPREAD else Policy.BEST_FIT,
            node_policy=options.node_policy,
            objective=policy.placement.objective,
            one_numa_node=annotations.get(names.NUMA_BIND) == "true",
            types=_words(annotations.get(names.USE_GPU_TYPE, "")),
            not_types=_words(annotations.get(names.NO_USE_GPU_TYPE, "")),
        ),
        waits=options.on_violation is OnViolation.DENY,
        wait=options.place_wait,
        group_size=group_size(options.group_size, annotations),
        on_one_node=options.group is not None and options.colocate is Colocate.REQUIRED,
        options=options,
        profile=profile,
    )


def _constraints(requirements: Requirements) -> Constraints:
    return Constraints(
        require_nvlink=requirements.every_pair_linked,
        min_bandwidth=requirements.min_bandwidth or 0.0,
        same_numa=requirements.one_numa_node,
    )


def _words(text: str) -> tuple[str, ...]:
    """Returns the words of a comma list, in capitals; text beyond the length that HAMi's users write is ignored."""
    return tuple(word.strip().upper() for word in text[:_MOST_CHARACTERS].split(",") if word.strip())


_MOST_CHARACTERS = 1024

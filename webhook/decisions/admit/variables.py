"""The rules for our environment variables that a container may already have."""

from collections.abc import Sequence

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.admit.pod_patch import PodPatch
from webhook.objects.pod import EnvVar, Reference
from webhook.words.catalogue.variables import LEFT_AS_IT_IS, SETS_DIFFERENTLY, SETS_WHAT_FOLLOWS_FROM_GPUS
from webhook.words.outcome import Reason

Sources = Sequence[Reference]
"""The places from which a value of ours may come; a new variable takes the first."""


def require_value(patch: PodPatch, container: PodContainer, name: str, value: str, profile: str) -> None:
    """Adds a literal that the profile requires; the pod is refused if the container sets the variable differently."""
    own = container.env.get(name)
    if own is None:
        patch.add_variable(container, name, value)
    elif not own.is_literal(value):
        message = SETS_DIFFERENTLY.say(container=container.name, variable=name, profile=profile, value=value)
        patch.refuse(Reason.CONTRADICTS_PROFILE, message)


def require_reference(patch: PodPatch, container: PodContainer, name: str, sources: Sources, profile: str) -> None:
    """Adds a variable that the profile requires and that takes its value from the first of ``sources``.

    A variable of the container that takes its value from any of them stays. The pod is refused if the container sets
    the variable differently.
    """
    own = container.env.get(name)
    if own is None:
        patch.add_reference(container, name, sources[0])
    elif not any(map(own.reads, sources)):
        message = SETS_WHAT_FOLLOWS_FROM_GPUS.say(container=container.name, variable=name, profile=profile)
        patch.refuse(Reason.CONTRADICTS_PROFILE, message)


def offer_value(patch: PodPatch, container: PodContainer, name: str, value: str) -> None:
    """Adds a literal for tuning; the container's own value stays."""
    own = container.env.get(name)
    if own is None:
        patch.add_variable(container, name, value)
    elif not own.is_literal(value):
        _left_alone(patch, container, own)


def offer_reference(patch: PodPatch, container: PodContainer, name: str, sources: Sources) -> None:
    """Adds a variable for tuning that takes its value from the first of ``sources``; the container's own stays."""
    own = container.env.get(name)
    if own is None:
        patch.add_reference(container, name, sources[0])
    elif not any(map(own.reads, sources)):
        _left_alone(patch, container, own)


def _left_alone(patch: PodPatch, container: PodContainer, own: EnvVar) -> None:
    patch.warn(LEFT_AS_IT_IS.say(container=container.name, variable=own.name))

"""How our environment variables meet those that the container already has."""

from collections.abc import Sequence

from webhook.admit.container import PodContainer
from webhook.admit.pod_patch import PodPatch
from webhook.model.outcome import Reason, Refused
from webhook.model.pod import EnvVar, Reference

Sources = Sequence[Reference]
"""Where a value of ours may come from; what is written anew takes the first."""


def require_value(patch: PodPatch, one: PodContainer, name: str, value: str, why: str) -> None:
    """A literal that the profile cannot do without.

    Raises:
        Refused: the container sets the variable differently.
    """
    own = one.env.get(name)
    if own is None:
        patch.add_variable(one, name, value)
    elif own.value_from is not None or own.value != value:
        raise contradiction(one, name, f"{why} needs {value}")


def require_reference(patch: PodPatch, one: PodContainer, name: str, sources: Sources, why: str) -> None:
    """A value from elsewhere that the profile cannot do without: from the first of ``sources``, or from any if it does.

    Raises:
        Refused: the container sets the variable differently.
    """
    own = one.env.get(name)
    if own is None:
        patch.add_reference(one, name, sources[0])
    elif not any(map(own.reads, sources)):
        raise contradiction(one, name, f"{why} takes it from the GPUs that the scheduler chooses")


def offer_value(patch: PodPatch, one: PodContainer, name: str, value: str) -> None:
    """A literal for tuning: the container's own value stays."""
    own = one.env.get(name)
    if own is None:
        patch.add_variable(one, name, value)
    elif own.value_from is not None or own.value != value:
        _left_alone(patch, one, own)


def offer_reference(patch: PodPatch, one: PodContainer, name: str, sources: Sources) -> None:
    """A value from elsewhere, for tuning: the container's own value stays."""
    own = one.env.get(name)
    if own is None:
        patch.add_reference(one, name, sources[0])
    elif not any(map(own.reads, sources)):
        _left_alone(patch, one, own)


def _left_alone(patch: PodPatch, one: PodContainer, own: EnvVar) -> None:
    patch.warn(f"container {one.name} sets {own.name} itself; it stays as it is")


def contradiction(one: PodContainer, name: str, why: str) -> Refused:
    """The refusal of a value that the profile cannot live with; values themselves are not repeated."""
    return Refused(
        Reason.CONTRADICTS_PROFILE,
        f"container {one.name} sets {name} itself, but {why}. Remove the variable, or opt out of injection",
    )

"""How our environment variables meet those that the container already has."""

from collections.abc import Iterator

from webhook.admit.edits import AddVariable, Finding
from webhook.admit.request import PodContainer
from webhook.model.outcome import Reason, Refused, Warning
from webhook.model.pod import EnvVar, annotation_path


def require_value(one: PodContainer, name: str, value: str, why: str) -> Iterator[Finding]:
    """A literal that the profile cannot do without.

    Raises:
        Refused: the container sets the variable differently.
    """
    own = one.env.get(name)
    if own is None:
        yield AddVariable(one, name, value)
    elif own.value_from is not None or own.value != value:
        raise contradiction(one, name, f"{why} needs {value}")


def require_reference(one: PodContainer, name: str, field_path: str, why: str) -> Iterator[Finding]:
    """A downward-API reference that the profile cannot do without.

    Raises:
        Refused: the container sets the variable differently.
    """
    own = one.env.get(name)
    if own is None:
        yield AddVariable(one, name, field_path=field_path)
    elif not own.reads(field_path):
        raise contradiction(one, name, f"{why} takes it from the GPUs that the scheduler chooses")


def offer_value(one: PodContainer, name: str, value: str) -> Iterator[Finding]:
    """A literal for tuning: the container's own value stays."""
    own = one.env.get(name)
    if own is None:
        yield AddVariable(one, name, value)
    elif own.value_from is not None or own.value != value:
        yield left_alone(one, own)


def offer_annotation(one: PodContainer, name: str, key: str) -> Iterator[Finding]:
    """A reference to the annotation ``key`` for tuning: the container's own value stays."""
    own = one.env.get(name)
    if own is None:
        yield AddVariable(one, name, field_path=annotation_path(key))
    elif not own.reads(annotation_path(key)):
        yield left_alone(one, own)


def left_alone(one: PodContainer, own: EnvVar) -> Warning:
    """Says that the container's own value won."""
    return Warning(f"container {one.name} sets {own.name} itself; it stays as it is")


def contradiction(one: PodContainer, name: str, why: str) -> Refused:
    """The refusal of a value that the profile cannot live with; values themselves are not repeated."""
    return Refused(
        Reason.CONTRADICTS_PROFILE,
        f"container {one.name} sets {name} itself, but {why}. Remove the variable, or opt out of injection",
    )

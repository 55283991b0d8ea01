"""What a step may ask for. Steps return these values; only compose.py turns them into a patch."""

from typing import Any

import msgspec

from webhook.admit.request import PodContainer
from webhook.model.outcome import Warning
from webhook.model.pod import Quantity


class Edit(msgspec.Struct, frozen=True, gc=False):
    """Base of the edits."""


class AddVariable(Edit):
    """Append a variable to a container's ``env``: a literal ``value``, or the downward-API field ``field_path``."""

    container: PodContainer
    name: str
    value: str = ""
    field_path: str = ""


class ReplaceVariable(Edit):
    """Replace the entry at ``index`` of a container's ``env`` by a literal."""

    container: PodContainer
    index: int
    name: str
    value: str


class AddMount(Edit):
    """Append a volume mount to a container."""

    container: PodContainer
    volume: str
    path: str
    read_only: bool = False


class AddVolume(Edit):
    """Append an ``emptyDir`` volume to the pod."""

    name: str
    empty_dir: dict[str, str]


class SetResource(Edit):
    """Set one resource in ``section`` (``limits`` or ``requests``) of a container; ``replaces`` an existing value."""

    container: PodContainer
    section: str
    resource: str
    value: Quantity
    replaces: bool


class DropResource(Edit):
    """Remove one resource from ``section`` of a container."""

    container: PodContainer
    section: str
    resource: str


class Annotate(Edit):
    """Give a pod annotation this value, whatever it had before."""

    key: str
    value: str


class Label(Edit):
    """Give a pod label this value, whatever it had before."""

    key: str
    value: str


class SetSpec(Edit):
    """Set one field of the pod's ``spec``; ``replaces`` an existing value."""

    field: str
    value: str | bool
    replaces: bool = False


class AddAffinityTerm(Edit):
    """Append a term to the required or the preferred terms of ``affinity.podAffinity``."""

    required: bool
    term: dict[str, Any]


class AddInitContainer(Edit):
    """Insert a container before all init containers."""

    container: dict[str, Any]


class ReplaceContainer(Edit):
    """Replace a container that is ours by its present form."""

    container: PodContainer
    value: dict[str, Any]


Finding = Edit | Warning

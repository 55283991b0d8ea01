"""Advice to the author of a manifest that admission cannot give, because it sees only pods and not their templates."""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.objects.manifest.templates import ManifestObject, Template, find_bare_containers
from webhook.words import names
from webhook.words.catalogue import opting
from webhook.words.outcome import Reason
from webhook.words.patch import pointer

_LISTED = 4
SAYS_HOW_TO_ASK = str(opting.HOW_TO_ASK.say())
"""Admission's warning. :func:`how_to_ask` says the same with the place."""


def how_to_ask(reason: Reason, template: Template) -> str:
    """Return how a pod that is left alone for ``reason`` requests injection; begins with a blank, or is empty."""
    if reason not in {Reason.NOT_REQUESTED, Reason.VGPU_SLICE}:
        return ""
    cards = ", which also gives it whole cards" if reason is Reason.VGPU_SLICE else ""
    how = opting.HOW_TO_ASK.say().text
    return f" {how[:1].upper()}{how[1:]} at {template.path}/metadata/annotations{cards}."


def misplaced_options(template: Template) -> Iterator[str]:
    """Yield a sentence for each annotation or label of ours on a parent of a pod template, which pods do not get."""
    for depth in range(len(template.owner.keys), len(template.keys)):
        holder = _at(template.owner, template.keys[:depth])
        for field in ("annotations", "labels"):
            own = _texts(template.value, field)
            ours = [key for key in _texts(holder, field) if isinstance(key, str) and key.startswith(names.PREFIX)]
            found = pointer(*template.keys[:depth], "metadata", field)
            for key in ours:
                if key not in own:
                    said = f"{field.removesuffix('s')} {key} has no effect at {found}: the webhook reads the pod's"
                    yield f"{said}. Write it at {template.path}/metadata/{field}"


def pods_made_elsewhere(found: ManifestObject) -> Iterator[str]:
    """Yield a note about an object that has containers but no pod template, so that its pods are not known."""
    places = [pointer(*keys) for keys in find_bare_containers(found)]
    if not places:
        return
    listed = ", ".join(places[:_LISTED]) + (f" and {len(places) - _LISTED} more" if len(places) > _LISTED else "")
    yield (
        f"note: {found.kind} {found.name}: it has containers, or asks for GPUs, without a pod template ({listed}): its "
        "controller makes the pods, and they are left out here. The webhook treats them when they are created. Options "
        "are annotations of the namespace, or of the pods where this kind can give them some. For such a pod: "
        "kubectl get pod NAME -o yaml | gpu-topology inject -f -"
    )


def _at(owner: ManifestObject, keys: tuple[str | int, ...]) -> Any:
    node = owner.value
    for key in keys[len(owner.keys) :]:
        node = node[key]
    return node


def _texts(holder: Any, field: str) -> Mapping[Any, Any]:
    metadata = holder.get("metadata") if isinstance(holder, Mapping) else None
    found = metadata.get(field) if isinstance(metadata, Mapping) else None
    return found if isinstance(found, Mapping) else {}

"""Advice to the author of a manifest that admission cannot give, because it sees only pods and not their templates."""

from collections.abc import Iterator

from webhook.objects.manifest.templates import ManifestObject, Template, find_bare_containers
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

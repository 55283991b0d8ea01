"""Options on a parent of a pod template, such as a Job, which its pods do not get."""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.objects.manifest.templates import ManifestObject, Template
from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.opting import MISPLACED_OPTION
from webhook.words.patch import pointer
from webhook.words.printable import fitted


def misplaced_options(template: Template, *, in_object: bool = False) -> Iterator[Message]:
    """Yields a message for each annotation and label of ours on a parent of a pod template that the template lacks.

    Args:
        template: The template.
        in_object: Whether places are named as in the object, and not as in its document, which may be a List.
    """
    begin = len(template.owner.keys) if in_object else 0
    for depth in range(len(template.owner.keys), len(template.keys)):
        holder = _at(template.owner, template.keys[:depth])
        for field in ("annotations", "labels"):
            own = _texts(template.value, field)
            found = pointer(*template.keys[begin:depth], "metadata", field)
            for key in _texts(holder, field):
                if isinstance(key, str) and key.startswith(names.PREFIX) and key not in own:
                    kind, wanted = field.removesuffix("s"), pointer(*template.keys[begin:], "metadata", field)
                    yield MISPLACED_OPTION.say(kind=kind, key=fitted(key), found=found, wanted=wanted)


def _at(owner: ManifestObject, keys: tuple[str | int, ...]) -> Any:
    node = owner.value
    for key in keys[len(owner.keys) :]:
        node = node[key]
    return node


def _texts(holder: Any, field: str) -> Mapping[Any, Any]:
    metadata = holder.get("metadata") if isinstance(holder, Mapping) else None
    found = metadata.get(field) if isinstance(metadata, Mapping) else None
    return found if isinstance(found, Mapping) else {}

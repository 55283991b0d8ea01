"""Whole cards: all cores and all memory of each GPU, in limits and requests alike.

``gpucores: 100`` makes HAMi give an idle card and keep other pods off it; ``gpumem`` would win over the percentage.
Extended resources must have equal limits and requests, so both are written. Where resource claims serve the count,
only the count is written: no claim serves cores and memory, so a pod that requests them would wait for ever.
"""

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.request.resources import WHOLE
from webhook.objects.pod import Quantity
from webhook.words.errors import FormatError
from webhook.words.quantity import parse_count

PURPOSE = "give it whole cards"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Sets the resources of each GPU container."""
    for container in subject.gpu_containers:
        request, resources = subject.gpu_request(container), container.spec.resources
        family = request.names
        if family is None or family.family == "koordinator":
            continue  # claims give whole GPUs, as does Koordinator's count alone; its cores are of all GPUs together
        wanted: list[tuple[str, int, Quantity]] = [(family.count, request.count, request.written_count)]
        parts, unwanted = (family.cores, family.memory_percentage), [family.memory]
        if subject.cluster.is_claimed(family.count):
            unwanted += parts
        else:
            wanted += [(part, WHOLE, "100") for part in parts]
        for section in ("limits", "requests"):
            present: dict[str, Quantity] = getattr(resources, section) or {}
            for resource, number, text in wanted:
                current = present.get(resource)
                if current != text and not _equal(container, resource, current, number):
                    patch.set_resource(container, section, resource, text)
            for resource in unwanted:
                if resource in present:
                    patch.drop_resource(container, section, resource)


def _equal(container: PodContainer, resource: str, current: Quantity | None, number: int) -> bool:
    if current is None:
        return False
    try:
        return parse_count(current, source=f"resource {resource} of container {container.name}") == number
    except FormatError:  # a request that its limit overrules
        return False

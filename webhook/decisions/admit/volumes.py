"""The volumes that we add, under names that no volume of the user has."""

from collections.abc import Collection, Iterator, Mapping
from itertools import count

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.objects.pod import Volume
from webhook.words.quantity import parse_quantity


def numbered(name: str) -> Iterator[str]:
    """Yields ``name``, ``name-2``, ``name-3``, ... without end."""
    yield name
    for number in count(2):
        yield f"{name}-{number}"


def empty_dir_name(
    present: Mapping[str, Volume], name: str, *, size_limit: str, medium: str = "", foreign: Collection[str] = ()
) -> str:
    """Returns the name of our ``emptyDir``: of an earlier admission, else the first free one; none of ``foreign``."""
    return next(
        candidate
        for candidate in numbered(name)
        if candidate not in foreign
        and (candidate not in present or _is_empty_dir(present[candidate], size_limit, medium))
    )


def provide_empty_dir(
    patch: PodPatch, present: Mapping[str, Volume], name: str, *, size_limit: str, medium: str = ""
) -> str:
    """Adds our ``emptyDir``, unless an earlier admission has done so, and returns its name."""
    volume = empty_dir_name(present, name, size_limit=size_limit, medium=medium)
    if volume not in present:
        patch.add_empty_dir(volume, medium=medium, size_limit=size_limit)
    return volume


def _is_empty_dir(volume: Volume, size_limit: str, medium: str) -> bool:
    source = volume.empty_dir
    if source is None or (source.medium or "") != medium or source.size_limit is None:
        return False
    return parse_quantity(source.size_limit, source=volume.name) == parse_quantity(size_limit, source="sizeLimit")

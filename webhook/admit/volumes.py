"""Names for our volumes that never meet a volume of the user's."""

from collections.abc import Callable
from itertools import count

from webhook.model.pod import Volume


def own_volume(present: dict[str, Volume], name: str, is_ours: Callable[[Volume], bool]) -> tuple[str, bool]:
    """The name that our volume has or gets (``name``, else ``name-2``, ...), and whether it is in the pod already."""
    if name not in present:
        return name, False
    for number in count(1):
        candidate = name if number == 1 else f"{name}-{number}"
        if candidate not in present:
            return candidate, False
        if is_ours(present[candidate]):
            return candidate, True
    raise AssertionError("count() does not end")

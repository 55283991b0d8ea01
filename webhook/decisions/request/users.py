"""The users that the containers of a pod run as: peers of different users cannot open each other's shared memory.

NCCL makes its segments in ``/dev/shm`` with mkstemp, so with mode 0600: src/os/linux.cc, src/transport/nvls.cc.
"""

from collections.abc import Mapping, Sequence

import msgspec

from webhook.objects.pod import Container, PodSpec


class UserDifference(msgspec.Struct, frozen=True):
    """Two containers whose users differ, or may differ."""

    first: str
    second: str
    user: int
    """The user of ``first``."""
    other: int | None
    """The user of ``second``; ``None``: its image decides."""


def users(spec: PodSpec, containers: Sequence[Container]) -> Mapping[str, int | None]:
    """Returns the user of each container by its name; ``None``: the image decides.

    Raises:
        MalformedPod: a security context has another type than in a pod.
    """
    of_pod = spec.run_as_user
    found = {}
    for container in containers:
        own = container.run_as_user
        found[container.name] = of_pod if own is None else own
    return found


def user_difference(found: Mapping[str, int | None]) -> UserDifference | None:
    """Returns two containers of different users, else one with a user and one whose image decides; else ``None``."""
    given = [(name, user) for name, user in found.items() if user is not None]
    if not given:
        return None
    first, user = given[0]
    for second, other in given:
        if other != user:
            return UserDifference(first, second, user, other)
    unknown = next((name for name, known in found.items() if known is None), None)
    return UserDifference(first, unknown, user, None) if unknown is not None else None

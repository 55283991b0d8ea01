"""The condition that peers run as one user: shared memory belongs to one user, and others cannot open it."""

from collections.abc import Iterator, Sequence

from webhook.decisions.request.resources import read_requests
from webhook.decisions.request.users import user_difference, users
from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, fails, holds, unknown
from webhook.objects.pod import MalformedPod, Pod, PodSpec
from webhook.words.catalogue import peers
from webhook.words.listing import counted
from webhook.words.outcome import Refused

USERS = "users"


def peer_users(examined: ExaminedPod, others: Sequence[Pod]) -> Iterator[Finding]:
    """Yields a finding about the users of containers with GPUs, of this pod and of other pods.

    Nothing is yielded where all users are those of the images.
    """
    found = {
        f"container {name}": user
        for name, user in users(examined.spec, [container.spec for container in examined.gpu_containers]).items()
    }
    for other in others:
        found |= _of_pod(examined, other)
    if len(found) < 2 or not any(user is not None for user in found.values()):
        return
    difference = user_difference(found)
    if difference is None:
        yield holds(USERS, f"{counted(len(found), 'container')} of these pods run as user {next(iter(found.values()))}")
        return
    first, second, user = difference.first, difference.second, difference.user
    if difference.other is None:
        yield unknown(USERS, peers.USER_OF_IMAGE.say(first=first, user=user, second=second))
    else:
        yield fails(USERS, peers.USERS_DIFFER.say(first=first, user=user, second=second, other=difference.other))


def _of_pod(examined: ExaminedPod, pod: Pod) -> dict[str, int | None]:
    policy = examined.evidence.policy
    try:
        asking = [
            container.spec
            for container in read_requests(pod, policy.resources, policy.default_count).containers
            if container.request
        ]
        return {
            f"container {name} of {pod.display_name}": user
            for name, user in users(pod.spec or PodSpec(), asking).items()
        }
    except (Refused, MalformedPod):
        return {}

"""The result of the remap program in a pod, which verifies that the pod has the cards that it was given.

The program ends with 0 if the pod has these cards, and with another code and a reason if it does not
(docs/injection.md, section 12). As a sidecar it continues to run, and its startup probe succeeds once it has verified
the cards.
"""

from collections.abc import Sequence

from webhook.insight.overview.model import Verified
from webhook.objects.pod import ContainerStatus, Pod
from webhook.words import names


def verified(pod: Pod) -> tuple[Verified, str]:
    """Returns whether the pod has the cards that it was given, and if not, the reason in the words of the program.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    every = pod.status.init_containers if pod.status else ()
    return _judged([found for found in every if found.name.startswith(names.REMAP_CONTAINER)])


def _judged(found: Sequence[ContainerStatus]) -> tuple[Verified, str]:
    for each in found:
        now = each.state.terminated if each.state else None
        last = each.last_state.terminated if each.last_state else None
        if now is not None and now.exit_code == 0:
            return Verified.YES, ""
        if now is None and each.started:
            return Verified.YES, ""
        failed = now or last
        if failed is not None and failed.exit_code:
            return Verified.NO, failed.message
    return Verified.UNKNOWN, ""

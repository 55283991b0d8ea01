"""Profile ``exclusive`` where HAMi's DRA driver gives the GPUs: it preloads HAMi's library whatever the pod says."""

from collections.abc import Sequence

from webhook.catalogue import cards
from webhook.config import AdmitPolicy
from webhook.model import names
from webhook.model.choices import Profile
from webhook.model.cluster import ClusterFacts
from webhook.model.options import resolve_options
from webhook.model.outcome import Reason, Refused
from webhook.model.pod import Namespace, Pod
from webhook.request.resources import ContainerRequest


def refuse_promise_of_claims(pod: Pod, namespace: Namespace, policy: AdmitPolicy) -> None:
    """Of a pod without GPU requests, whose limits HAMi-DRA's webhook has turned into claims.

    Only pods that ask for injection themselves are promised anything.

    Raises:
        Refused: the pod asks for profile ``exclusive``.
        FormatError: an option does not parse.
    """
    asks = names.PROFILE in pod.annotations or pod.annotations.get(names.INJECT) == "true"
    if asks and pod.labels.get(names.HAMI_DRA) == "true":
        _refuse(pod, namespace, resolve_options(policy.defaults, pod, namespace).profile)


def refuse_preloaded(
    pod: Pod, namespace: Namespace, containers: Sequence[ContainerRequest], profile: Profile, cluster: ClusterFacts
) -> None:
    """Of a pod that asks for GPUs by their count.

    Raises:
        Refused: the profile is ``exclusive``, and HAMi's DRA driver serves that count.
    """
    if any(container.request and cluster.is_preloaded(container.request.resource) for container in containers):
        _refuse(pod, namespace, profile)


def _refuse(pod: Pod, namespace: Namespace, profile: Profile) -> None:
    if profile is Profile.EXCLUSIVE:
        name = f"{namespace.name}/{pod.display_name}"
        raise Refused(Reason.HAMI_DRA_DRIVER, cards.PRELOADED_BY_DRA.say(pod=name))

"""The refusal of pods whose claims do not allow what their profile promises, before any step runs.

HAMi's DRA driver preloads HAMi's library whatever the pod says (cmd/hami-kubelet-plugin/hami_core.go of
Project-HAMi/k8s-dra-driver). With the library preloaded CUDA IPC does not work, so no profile holds there.
"""

from collections.abc import Collection, Sequence

from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import resolve_options
from webhook.decisions.request.resources import ContainerRequest
from webhook.decisions.request.skip_reasons import asks_itself
from webhook.objects.pod import Namespace, Pod
from webhook.words import names
from webhook.words.catalogue import cards, claims
from webhook.words.choices import Profile
from webhook.words.outcome import Reason, Refused


def refuse_promise_of_claims(pod: Pod, namespace: Namespace, policy: AdmitPolicy) -> None:
    """Refuses a pod without GPU requests whose limits HAMi-DRA's webhook has turned into claims.

    Only pods that ask for injection themselves are promised anything.

    Raises:
        Refused: the pod asks for profile ``exclusive``.
        FormatError: an option does not parse.
    """
    if asks_itself(pod) and pod.labels.get(names.HAMI_DRA) == "true":
        profile = resolve_options(policy.defaults, pod, namespace).profile
        if profile is Profile.EXCLUSIVE:
            raise _preloaded(pod, namespace, profile)


def refuse_preloaded(
    pod: Pod, namespace: Namespace, containers: Sequence[ContainerRequest], profile: Profile, cluster: ClusterFacts
) -> None:
    """Refuses a pod whose GPUs HAMi's DRA driver gives.

    Args:
        pod: The pod.
        namespace: Its namespace.
        containers: All containers of the pod.
        profile: The profile of the pod.
        cluster: The facts about the cluster. Where claims are not read, they tell whether claims serve a count.

    Raises:
        Refused: the profile promises containers without HAMi's library.
    """
    requests = [container.request for container in containers if container.request]
    is_preloaded = any(request.claimed and request.claimed.preloading_driver for request in requests)
    by_count = profile is Profile.EXCLUSIVE and any(cluster.is_preloaded(request.resource) for request in requests)
    if is_preloaded or by_count:
        raise _preloaded(pod, namespace, profile)


def refuse_unfit(containers: Sequence[ContainerRequest], selected: Collection[str]) -> None:
    """Refuses a pod with containers that get parts of GPUs by claims, or GPUs in two ways.

    Args:
        containers: All containers of the pod.
        selected: The names of the containers to which the profile applies.

    Raises:
        Refused: a selected container gets its GPUs so.
    """
    for container in containers:
        request = container.request
        if request is None or container.name not in selected:
            continue
        if request.asks_twice:
            message = claims.TWO_WAYS.say(container=container.name, resource=request.resource)
            raise Refused(Reason.BAD_RESOURCE, message)
        if request.why_part:
            message = claims.PART_OF_CLAIM.say(container=container.name, why=request.why_part.text)
            raise Refused(Reason.PARTS_OF_CLAIM, message)


def _preloaded(pod: Pod, namespace: Namespace, profile: Profile) -> Refused:
    name = f"{namespace.name}/{pod.display_name}"
    if profile is Profile.EXCLUSIVE:
        return Refused(Reason.HAMI_DRA_DRIVER, cards.PRELOADED_BY_DRA.say(pod=name))
    return Refused(Reason.HAMI_DRA_DRIVER, claims.PEERS_PRELOADED.say(pod=name, profile=profile))

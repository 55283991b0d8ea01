"""The reasons why a pod is not injected. Their order is documented in docs/injection.md, section 1."""

from collections.abc import Sequence

import msgspec

from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import parse_option
from webhook.decisions.request.claims import read_claims
from webhook.decisions.request.resources import ContainerRequest, PodRequests, unrecognized
from webhook.objects.pod import Namespace, Pod, PodSpec
from webhook.words import names
from webhook.words.catalogue.cards import MIG_LEFT_ALONE, UNRECOGNIZED_RESOURCE
from webhook.words.catalogue.claims import CLAIMS_NOT_READ, PART_OF_CLAIM, PRELOADED_LEFT_ALONE
from webhook.words.catalogue.opting import (
    ASKS_WITHOUT_GPU,
    CLAIMS_LEFT_ALONE,
    HOW_TO_ASK,
    NAMESPACE_NOT_KNOWN_YET,
    PLAIN_DEVICE_PLUGIN,
    SCHEDULED_BY_VOLCANO,
)
from webhook.words.outcome import Reason


class Skip(msgspec.Struct, frozen=True, gc=False):
    """The reason why a pod is not injected, with a warning for its user."""

    reason: Reason
    warning: str = ""


_NOT_ENABLED = Skip(Reason.NAMESPACE_NOT_ENABLED)
_MIRROR_POD = Skip(Reason.MIRROR_POD)
_OPTED_OUT = Skip(Reason.OPTED_OUT)
_NO_GPU = Skip(Reason.NO_GPU_REQUEST)
_NO_GPU_BUT_ASKED = Skip(Reason.NO_GPU_REQUEST, str(ASKS_WITHOUT_GPU.say()))
_MIG = Skip(Reason.MIG_REQUEST, str(MIG_LEFT_ALONE.say()))
_SLICE = Skip(Reason.VGPU_SLICE)
_CLAIMS = Skip(Reason.RESOURCE_CLAIMS, str(CLAIMS_LEFT_ALONE.say()))
_CLAIMS_NOT_READ = Skip(Reason.RESOURCE_CLAIMS, str(CLAIMS_NOT_READ.say()))
_PRELOADED = Skip(Reason.HAMI_DRA_DRIVER, str(PRELOADED_LEFT_ALONE.say()))
_PLAIN = Skip(Reason.PLAIN_DEVICE_PLUGIN, str(PLAIN_DEVICE_PLUGIN.say()))
_VOLCANO = Skip(Reason.OTHER_SCHEDULER, str(SCHEDULED_BY_VOLCANO.say()))
_HAMI = "hami"
_NOT_REQUESTED = Skip(Reason.NOT_REQUESTED)
_NOT_REQUESTED_BY_A_PERSON = Skip(Reason.NOT_REQUESTED, str(HOW_TO_ASK.say()))


def early_skip_reason(pod: Pod, namespace: Namespace) -> Skip | None:
    """Returns why the pod is skipped whatever its containers request; ``None`` if that depends on their requests."""
    if not namespace.known:
        return Skip(Reason.NAMESPACE_UNKNOWN, str(NAMESPACE_NOT_KNOWN_YET.say(namespace=namespace.name)))
    if not namespace.injection_enabled:
        return _NOT_ENABLED
    if names.CONFIG_MIRROR in pod.annotations:
        # The kubelet runs a static pod from its file, whatever happens to the mirror pod at the API server.
        return _MIRROR_POD
    return _OPTED_OUT if pod.labels.get(names.INJECTION) == "disabled" else None


def skip_reason(pod: Pod, namespace: Namespace, requests: PodRequests, policy: AdmitPolicy) -> Skip | None:
    """Returns why a pod without :func:`early_skip_reason` is skipped; ``None`` if it is to be injected.

    Raises:
        FormatError: ``gpu.topology/inject`` does not parse.
        MalformedPod: a field has another type than in a pod.
    """
    found = [container for container in requests.containers if container.request]
    if not found and not requests.mig:
        return _without_request(pod, namespace, requests, policy)
    inject = _inject_option(pod.annotations, f"pod {namespace.name}/{pod.display_name}")
    if inject is False:
        return _OPTED_OUT
    if requests.mig:
        return _MIG
    if asks_itself(pod):
        return None
    parts = _of_parts(found)
    if parts:
        return parts
    wanted = _inject_option(namespace.annotations, f"namespace {namespace.name}")
    wanted = policy.defaults.inject if wanted is None else wanted
    if wanted is None:
        wanted = any(container.request.count > 1 for container in found if container.request)
    if not wanted:
        return _NOT_REQUESTED if pod.has_owner else _NOT_REQUESTED_BY_A_PERSON
    claims = (container.request.claimed for container in found if container.request)
    return _PRELOADED if any(claimed.preloading_driver for claimed in claims if claimed) else None


def unserved_reason(pod: Pod, requests: PodRequests, policy: AdmitPolicy, cluster: ClusterFacts) -> Skip | None:
    """Returns why HAMi gives no GPUs to a pod that asks for them by HAMi's resources; ``None`` if it may.

    Volcano's scheduler asks no extender of HAMi's, and no node offers the cores and the memory that whole cards ask
    for. Other schedulers may ask that extender, so their pods are warned of only.

    Args:
        pod: The pod.
        requests: The requests of its containers.
        policy: The configuration.
        cluster: The facts about the cluster, overruled by the configuration.
    """
    is_left_to_volcano = (
        (pod.spec or PodSpec()).scheduler_name == names.VOLCANO_SCHEDULER != policy.hami_scheduler_name
        and cluster.keeps_scheduler_names
        and names.HAMI_ALLOCATED_NODE not in pod.annotations
    )
    if (plain := plain_reason(requests, cluster)) or not is_left_to_volcano:
        return plain
    found = [container.request for container in requests.containers if container.request]
    is_of_hami = any(request.family == _HAMI and not cluster.is_claimed(request.resource) for request in found)
    return _VOLCANO if is_of_hami else None


def plain_reason(requests: PodRequests, cluster: ClusterFacts) -> Skip | None:
    """Returns why a pod is skipped that only a plain device plugin can serve: it offers no cores and no memory.

    Args:
        requests: The requests of its containers.
        cluster: The facts about the cluster, overruled by the configuration.
    """
    if not cluster.lacks_hami:
        return None
    found = [container.request for container in requests.containers if container.request]
    is_plain = all(request.family == _HAMI and cluster.is_plain(request.resource) for request in found)
    return _PLAIN if found and is_plain else None


def asks_itself(pod: Pod) -> bool:
    """Returns whether the pod itself, and not a default, asks for injection."""
    return names.PROFILE in pod.annotations or pod.annotations.get(names.INJECT) == "true"


def _without_request(pod: Pod, namespace: Namespace, requests: PodRequests, policy: AdmitPolicy) -> Skip:
    claims = read_claims(pod, requests)
    # Where claims are read, those that may be for GPUs are requests. With HAMi-DRA's label there must be one.
    if claims and (claims.of_hami or not policy.claims.enabled):
        if _inject_option(pod.annotations, f"pod {namespace.name}/{pod.display_name}") is False:
            return _OPTED_OUT
        return _CLAIMS_NOT_READ if policy.claims.enabled else _CLAIMS
    found = next(unrecognized(pod, requests), None) if requests.containers else None
    if found and found.code == UNRECOGNIZED_RESOURCE.code:
        return Skip(Reason.NO_GPU_REQUEST, str(found))
    return _NO_GPU_BUT_ASKED if pod.annotations.get(names.INJECT) == "true" else _NO_GPU


def _of_parts(containers: Sequence[ContainerRequest]) -> Skip | None:
    """Returns why a pod that does not ask for injection itself is skipped, whatever its namespace asks for."""
    requests = [(container.name, container.request) for container in containers if container.request]
    if any(request.claimed and not request.claimed.is_known for _, request in requests):
        return _CLAIMS_NOT_READ
    for name, request in requests:
        if request.why_part:
            said = PART_OF_CLAIM.say(container=name, why=request.why_part.text)
            return Skip(Reason.PARTS_OF_CLAIM, str(said))
    return None if all(request.is_whole for _, request in requests) else _SLICE


def _inject_option(annotations: dict[str, str], holder: str) -> bool | None:
    text = annotations.get(names.INJECT)
    if text is None:
        return None
    inject: bool = parse_option("inject", text, source=f"annotation {names.INJECT} on {holder}")
    return inject

"""Why a pod is not injected. The order of the questions is documented in docs/injection.md, section 1."""

import msgspec

from webhook.catalogue.cards import MIG_LEFT_ALONE
from webhook.catalogue.opting import ASKS_WITHOUT_GPU, CLAIMS_LEFT_ALONE, HOW_TO_ASK, NAMESPACE_NOT_KNOWN_YET
from webhook.model import names
from webhook.model.options import parse_option
from webhook.model.outcome import Reason
from webhook.model.pod import Namespace, Pod
from webhook.request.claims import read_claims
from webhook.request.resources import PodRequests


class Skip(msgspec.Struct, frozen=True, gc=False):
    """A pod that is not injected."""

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
_NOT_REQUESTED = Skip(Reason.NOT_REQUESTED)
_NOT_REQUESTED_BY_A_PERSON = Skip(Reason.NOT_REQUESTED, str(HOW_TO_ASK.say()))


def early_skip_reason(pod: Pod, namespace: Namespace) -> Skip | None:
    """Why the pod is skipped whatever its containers request; ``None`` if that depends on their requests."""
    if not namespace.known:
        return Skip(Reason.NAMESPACE_UNKNOWN, str(NAMESPACE_NOT_KNOWN_YET.say(namespace=namespace.name)))
    if not namespace.injection_enabled:
        return _NOT_ENABLED
    if names.CONFIG_MIRROR in pod.annotations:
        # The kubelet runs what the file of the static pod says, whatever becomes of its image at the API server.
        return _MIRROR_POD
    return _OPTED_OUT if pod.labels.get(names.INJECTION) == "disabled" else None


def skip_reason(pod: Pod, namespace: Namespace, requests: PodRequests, inject_by_default: bool | None) -> Skip | None:
    """Why a pod without :func:`early_skip_reason` is skipped; ``None`` if it is to be injected.

    Raises:
        FormatError: ``gpu.topology/inject`` does not parse.
    """
    annotations = pod.annotations
    found = [container.request for container in requests.containers if container.request]
    if not found and not requests.mig:
        if read_claims(pod, requests):
            inject = _inject_option(annotations, f"pod {namespace.name}/{pod.display_name}")
            return _OPTED_OUT if inject is False else _CLAIMS
        return _NO_GPU_BUT_ASKED if annotations.get(names.INJECT) == "true" else _NO_GPU
    inject = _inject_option(annotations, f"pod {namespace.name}/{pod.display_name}")
    if inject is False:
        return _OPTED_OUT
    if requests.mig:
        return _MIG
    if inject or names.PROFILE in annotations:
        return None
    if not all(request.is_whole for request in found):
        return _SLICE
    wanted = _inject_option(namespace.annotations, f"namespace {namespace.name}")
    wanted = inject_by_default if wanted is None else wanted
    if wanted is None:
        wanted = any(request.count > 1 for request in found)
    if wanted:
        return None
    return _NOT_REQUESTED if pod.has_owner else _NOT_REQUESTED_BY_A_PERSON


def _inject_option(annotations: dict[str, str], holder: str) -> bool | None:
    text = annotations.get(names.INJECT)
    if text is None:
        return None
    inject: bool = parse_option("inject", text, source=f"annotation {names.INJECT} on {holder}")
    return inject

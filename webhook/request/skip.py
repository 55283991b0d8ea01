"""Is this pod ours? The order of the questions is documented in docs/injection.md, section 1."""

import msgspec

from webhook.admit.request import PodRequests
from webhook.model import names
from webhook.model.options import parse_option
from webhook.model.outcome import Reason
from webhook.model.pod import Namespace, Pod


class Passed(msgspec.Struct, frozen=True, gc=False):
    """The pod passes without a patch."""

    reason: Reason
    warning: str = ""


_NOT_ENABLED = Passed(Reason.NAMESPACE_NOT_ENABLED)
_MIRROR_POD = Passed(Reason.MIRROR_POD)
_OPTED_OUT = Passed(Reason.OPTED_OUT)
_NO_GPU = Passed(Reason.NO_GPU_REQUEST)
_NO_GPU_BUT_ASKED = Passed(Reason.NO_GPU_REQUEST, "gpu-topology: no container asks for a GPU")
_MIG = Passed(Reason.MIG_REQUEST, "gpu-topology: MIG devices have no NVLink; the pod is left as it is")
_SLICE = Passed(Reason.VGPU_SLICE)
_NOT_REQUESTED = Passed(Reason.NOT_REQUESTED)


def passes_unseen(pod: Pod, namespace: Namespace) -> Passed | None:
    """Why the pod is left alone whatever its containers ask for, or ``None``."""
    if not namespace.known:
        text = f"gpu-topology: namespace {namespace.name} is not known yet; the pod is left as it is"
        return Passed(Reason.NAMESPACE_UNKNOWN, text)
    if not namespace.injection_enabled:
        return _NOT_ENABLED
    if names.CONFIG_MIRROR in pod.annotations:
        # The kubelet runs what the file of the static pod says, whatever becomes of its image at the API server.
        return _MIRROR_POD
    return _OPTED_OUT if pod.labels.get(names.INJECTION) == "disabled" else None


def passes(pod: Pod, namespace: Namespace, asked: PodRequests, inject_by_default: bool | None) -> Passed | None:
    """Why the pod is left alone, or ``None`` if it is to be injected.

    Raises:
        FormatError: ``gpu.topology/inject`` does not parse.
    """
    annotations = pod.annotations
    requests = [one.request for one in asked.containers if one.request]
    if not requests and not asked.mig:
        return _NO_GPU_BUT_ASKED if annotations.get(names.INJECT) == "true" else _NO_GPU
    inject = _inject_option(annotations, f"pod {namespace.name}/{pod.display_name}")
    if inject is False:
        return _OPTED_OUT
    if asked.mig:
        return _MIG
    if inject or names.PROFILE in annotations:
        return None
    if not all(request.is_whole for request in requests):
        return _SLICE
    wanted = _inject_option(namespace.annotations, f"namespace {namespace.name}")
    wanted = inject_by_default if wanted is None else wanted
    if wanted is None:
        wanted = any(request.count > 1 for request in requests)
    return None if wanted else _NOT_REQUESTED


def _inject_option(annotations: dict[str, str], holder: str) -> bool | None:
    text = annotations.get(names.INJECT)
    if text is None:
        return None
    inject: bool = parse_option("inject", text, source=f"annotation {names.INJECT} on {holder}")
    return inject

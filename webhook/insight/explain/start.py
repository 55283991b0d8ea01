"""The start of a pod: what the status of its remap container says of the GPUs that the pod was given.

The remap program ends with 0 if the pod has these GPUs, and with another code and a reason if it does not
(docs/injection.md, section 12). As a sidecar it continues to run, and its startup probe succeeds once it has verified
the GPUs. It ends with 143 when it is told to, which is no failure: at the end of the pod, or because its probe failed.
"""

import enum
from collections.abc import Iterator
from datetime import datetime

from webhook.insight.explain.examination import ExaminedPod
from webhook.insight.explain.findings import Finding, fails, holds, unknown
from webhook.objects.pod import ContainerStatus, Pod, Terminated
from webhook.words import names
from webhook.words.catalogue import start as words
from webhook.words.catalogue.installation import RUNTIME_CLASS_OF_POD_MISSING
from webhook.words.printable import fitted
from webhook.words.timestamp import parse_timestamp

START = "start"
STILL_STARTING = 120
"""Seconds after which a remap container that verifies is remarkable: its program gives up after 50."""
STARTS = frozenset(
    entry.code
    for entry in (
        *(words.IMAGE_NOT_PULLED, words.NOT_CREATED, words.STOPPED),
        *(words.STILL_VERIFYING, words.NO_REMAP_IN_POD, words.UNKNOWN_DEVICE, RUNTIME_CLASS_OF_POD_MISSING),
    )
)
"""The codes of what keeps a pod from its start."""
_WITHOUT_IMAGE = frozenset({"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"})
_NOT_CREATED = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
"""Reasons for which the kubelet keeps a container waiting: kubernetes pkg/kubelet/images/types.go and
pkg/kubelet/kuberuntime/kuberuntime_container.go."""
UNKNOWN_DEVICE = "unknown device"
"""The end of what nvidia-container-cli says of a GPU that the driver does not have:
https://github.com/Project-HAMi/HAMi/issues/1106."""
_TOLD = 143
"""128 and the number of SIGTERM."""
_SAID_LIMIT = 400
"""Characters of what the kubelet or the program says."""


class Verified(enum.StrEnum):
    """The result of the verification in a pod: whether it has the cards that it was given."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def verified(pod: Pod) -> tuple[Verified, str]:
    """Returns whether the pod has the cards that it was given, and if not, the reason in the words of the program.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    found = list(_remap_containers(pod))
    ended = next((end for each in found if (end := _failed(each))), None)
    if ended is not None:
        return Verified.NO, ended.message
    is_verified = any(_is_verified(each) or _has_let_it_run(each, pod) for each in found)
    return (Verified.YES if is_verified else Verified.UNKNOWN), ""


def start(examined: ExaminedPod) -> Iterator[Finding]:
    """Yields the condition ``start`` of a pod that the webhook prepared; nothing while the pod has not come so far.

    A RuntimeClass that does not exist, or a GPU that the node does not have, keeps any pod from its start, prepared or
    not.
    """
    named = examined.spec.runtime_class_name
    if named and named in examined.cluster.missing_runtime_classes and not examined.evidence.pod.has_ended:
        yield fails(START, RUNTIME_CLASS_OF_POD_MISSING.say(name=fitted(named)), stops=True)
        return
    unknown_devices = list(_unknown_devices(examined.evidence.pod))
    yield from unknown_devices
    if unknown_devices or not examined.injected:
        return
    found = list(_remap_containers(examined.evidence.pod))
    troubles = [trouble for each in found if (trouble := _trouble(each, examined.evidence.asked_at))]
    if troubles:
        yield from troubles
    elif any(_is_verified(each) or _has_let_it_run(each, examined.evidence.pod) for each in found):
        yield holds(START, "the pod verified that it has the GPUs that it was given")
    elif examined.evidence.node and _lacks_container(examined):
        yield fails(START, words.NO_REMAP_IN_POD.say())


def _unknown_devices(pod: Pod) -> Iterator[Finding]:
    """Yields a finding for each container that does not run because its node lacks a GPU of its list."""
    status = pod.status
    for found in (*status.init_containers, *status.containers) if status and not pod.has_ended else ():
        states = [state for state in (found.state, found.last_state) if state]
        ends = [end for state in states if (end := state.waiting or state.terminated) and UNKNOWN_DEVICE in end.message]
        if ends and not (found.state and found.state.running):
            message = words.UNKNOWN_DEVICE.say(container=fitted(found.name), said=fitted(ends[0].message, _SAID_LIMIT))
            yield fails(START, message, stops=True)


def _remap_containers(pod: Pod) -> Iterator[ContainerStatus]:
    every = pod.status.init_containers if pod.status else ()
    return (found for found in every if found.name.startswith(names.REMAP_CONTAINER))


def _is_verified(found: ContainerStatus) -> bool:
    now = found.state.terminated if found.state else None
    return bool(found.started) if now is None else now.exit_code == 0


def _has_let_it_run(found: ContainerStatus, pod: Pod) -> bool:
    """Returns whether a sidecar was told to end by the end of a pod that succeeded, which starts only behind it."""
    now = found.state.terminated if found.state else None
    phase = pod.status.phase if pod.status else None
    return now is not None and now.exit_code == _TOLD and phase == "Succeeded"


def _failed(found: ContainerStatus) -> Terminated | None:
    """Returns the end of a container that failed and has not succeeded since."""
    if _is_verified(found):
        return None
    ends = (state.terminated for state in (found.state, found.last_state) if state)
    return next((end for end in ends if end is not None and end.exit_code not in {None, 0, _TOLD}), None)


def _trouble(found: ContainerStatus, now: datetime | None) -> Finding | None:
    """Returns what keeps the pod from its start; None if nothing is known to."""
    name = fitted(found.name)
    if ended := _failed(found):
        code = ended.exit_code or 0
        said = words.STOPPED.say(container=name, code=code, said=_said(ended.message), remedy=words.remedy(code, name))
        return fails(START, said, stops=True)
    waiting = found.state.waiting if found.state else None
    if waiting and waiting.reason in _WITHOUT_IMAGE | _NOT_CREATED:
        entry = words.IMAGE_NOT_PULLED if waiting.reason in _WITHOUT_IMAGE else words.NOT_CREATED
        message = entry.say(container=name, reason=waiting.reason, said=_said(waiting.message))
        return fails(START, message, stops=True)
    return _late(found, name, now)


def _late(found: ContainerStatus, name: str, now: datetime | None) -> Finding | None:
    running = found.state.running if found.state else None
    since = parse_timestamp(running.started_at) if running and running.started_at else None
    if _is_verified(found) or since is None or now is None:
        return None
    seconds = round((now - since).total_seconds())
    if seconds < STILL_STARTING:
        return None
    return unknown(START, words.STILL_VERIFYING.say(container=name, seconds=seconds))


def _said(text: str) -> str:
    return f": {fitted(text.strip(), _SAID_LIMIT)}" if text.strip() else ""


def _lacks_container(examined: ExaminedPod) -> bool:
    """Returns whether the webhook gives such a pod a remap container, and it has none."""
    subject = examined.actual.subject
    return subject is not None and subject.remap.is_added and subject.remap.existing is None

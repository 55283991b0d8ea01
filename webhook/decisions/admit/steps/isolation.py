"""The process IDs of a pod of ``node-peers`` that stays in namespaces of its own.

CUDA IPC takes equal process IDs for one process, also in different PID namespaces (LMCache
docs/design/v1/platform/cuda/ipc_wrapper.md), and two pods of one workload give their processes equal IDs. In one
namespace for all containers of the pod the remap container can go through as many IDs as no peer does, before the
others start. So no command is wrapped, and nothing is needed of the images.
"""

from collections.abc import Iterator

from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.subject import Subject
from webhook.decisions.request.transfer_flags import NCCL_CONNECTORS, said_by, starts_ranks
from webhook.words import names
from webhook.words.catalogue.peers import (
    ISOLATED_BESIDE_HOST,
    ISOLATED_CLAIM,
    ISOLATED_WITH_NCCL,
    ISOLATED_WITHOUT_REMAP,
    ISOLATED_WITHOUT_SHARED_PID,
    NOTHING_TO_ISOLATE,
)
from webhook.words.choices import Isolation
from webhook.words.outcome import Reason, Refused

PURPOSE = "give its processes other IDs than those of its peers"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Sets ``shareProcessNamespace``, and warns of what isolated pods cannot do."""
    if not subject.is_isolated:
        asked = subject.options.isolation is Isolation.ISOLATED and names.ISOLATION in subject.pod.annotations
        if asked:
            patch.warn(NOTHING_TO_ISOLATE.say(profile=subject.profile))
        return
    for name, sign in _speaking_nccl(subject):
        patch.warn(ISOLATED_WITH_NCCL.say(container=name, sign=sign))
    fields = [field for field, has in (("hostIPC", subject.host.ipc), ("hostPID", subject.host.pid)) if has]
    if fields:
        patch.warn(ISOLATED_BESIDE_HOST.say(fields=" and ".join(fields)))
    if not subject.host.pid:
        _own_ids(subject, patch)


def _own_ids(subject: Subject, patch: PodPatch) -> None:
    shared = subject.spec.share_process_namespace
    if subject.has_claims:
        raise Refused(Reason.CONTRADICTS_PROFILE, ISOLATED_CLAIM.say(pod=subject.name))
    if not subject.remap.is_added:
        raise Refused(Reason.CONTRADICTS_PROFILE, ISOLATED_WITHOUT_REMAP.say(pod=subject.name))
    if shared is False:
        raise Refused(Reason.CONTRADICTS_PROFILE, ISOLATED_WITHOUT_SHARED_PID.say(pod=subject.name))
    if shared is None:
        patch.set_spec("shareProcessNamespace", True)


def _speaking_nccl(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yields each container that seems to have peers of NCCL in other pods, perhaps on this node, and its sign."""
    specs = [container.spec for container in subject.gpu_containers]
    for container, (_, said), starts in zip(subject.gpu_containers, said_by(specs), starts_ranks(specs), strict=True):
        signs = [connector for connector in said.connectors if connector in NCCL_CONNECTORS]
        signs += [names.ENV_NCCL_HOSTID] if names.ENV_NCCL_HOSTID in container.env else []
        signs += ["mpirun, torchrun or the like"] if starts else []
        if signs:
            yield container.name, signs[0]

"""The remap container, which verifies the binding's values on the node and writes the topology file.

It sees only the cards of its pod, unless the namespace may see every GPU of a node: a user who may ``exec`` into the
pod may do so in this container too, even if only for the milliseconds that an init container takes.

With HAMi up to 2.9 and fixed 2.10 releases it is an init container. HAMi 2.10.0 gives a pod's cards away once its init
containers finish, so there it is a restartable one, which never finishes. That one stands first: a second look moves it
there if another webhook has put an init container ahead of it.
"""

from collections.abc import Sequence

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.admit.pod_patch import PodPatch
from webhook.decisions.admit.remap.choice import FILES_SIZE, ExistingRemapContainer
from webhook.decisions.admit.remap.container import RemapContainer, View, encode_container
from webhook.decisions.admit.subject import Subject
from webhook.decisions.admit.variables import offer_value
from webhook.decisions.admit.volumes import numbered
from webhook.decisions.claims.pod import EXTENDED, ClaimUse
from webhook.decisions.request.demand import required
from webhook.decisions.request.hami_counting import ahead_of, members
from webhook.objects.pod import annotation_reference
from webhook.words import names
from webhook.words.catalogue.installation import (
    ENV_FILE_BESIDE_ANNOTATIONS,
    ENV_FILE_NEEDS_KUBERNETES,
    ENV_FILE_NEEDS_LABEL,
    ENV_FILE_WITHOUT_REMAP,
    MOUNTS_OVER_FILES,
    NCCL_FILE_WITHOUT_REMAP,
    NO_REMAP_CONTAINER,
)
from webhook.words.choices import Carrier, OnViolation, Profile
from webhook.words.outcome import Reason, Refused

PURPOSE = "verify the GPUs and write the NCCL topology file when it starts"


def plan(subject: Subject, patch: PodPatch) -> None:
    """Adds volume, mounts, container and the variables that name its files; only warns without a remap container."""
    options, partial = subject.options, subject.policy.nccl_tables.partial
    _environment(subject, patch)
    if not subject.remap.is_added:
        if options.topology_file and names.TOPOLOGY_FILE_OPTION in subject.pod.annotations:
            patch.warn(NO_REMAP_CONTAINER.say(), Reason.NO_TOPOLOGY_FILE)
        if partial:
            patch.warn(NCCL_FILE_WITHOUT_REMAP.say(variables=", ".join(partial)))
        return
    volume = subject.remap.files_volume
    if volume not in subject.volumes:
        patch.add_empty_dir(volume, size_limit=FILES_SIZE)
    for container in subject.gpu_containers:
        mounted = container.mounts.get(names.FILES_PATH)
        if mounted is None:
            patch.add_mount(container, volume, names.FILES_PATH, read_only=True)
        elif mounted != volume:
            message = MOUNTS_OVER_FILES.say(container=container.name, volume=mounted)
            raise Refused(Reason.MOUNT_PATH_TAKEN, message)
        if options.topology_file:
            offer_value(patch, container, names.ENV_NCCL_TOPO_FILE, names.TOPOLOGY_FILE)
        if partial:
            offer_value(patch, container, names.ENV_NCCL_CONF_FILE, names.NCCL_FILE)
    patch.annotate(names.NODE_TOPOLOGY, subject.allocated.get(names.NODE_TOPOLOGY, names.UNKNOWN_TOPOLOGY))
    existing = subject.remap.existing
    wanted = _container(subject, existing.container.name if existing else _free_name(subject.containers), volume)
    if (wanted.view is View.POD or wanted.reads_bound_list) and names.VISIBLE_UUIDS not in patch.annotated:
        patch.annotate(names.VISIBLE_UUIDS, subject.allocated.get(names.VISIBLE_UUIDS, names.NO_VISIBLE_DEVICE))
    if existing is None:
        patch.insert_init_container(encode_container(wanted))
    else:
        _mend(subject, patch, existing, wanted)


def _environment(subject: Subject, patch: PodPatch) -> None:
    """Warns where the configuration asks for the env file and containers do not read it."""
    if subject.policy.remap.environment != "file" or subject.remap.reads_file:
        return
    if not subject.remap.is_added:
        message = ENV_FILE_WITHOUT_REMAP.say()
    elif not subject.cluster.has_env_files:
        message = ENV_FILE_NEEDS_KUBERNETES.say(kubernetes=subject.cluster.kubernetes or "one of unknown version")
    elif not subject.namespace.allows(names.ALLOW_NODE_GPUS):
        message = ENV_FILE_NEEDS_LABEL.say()
    else:
        message = ENV_FILE_BESIDE_ANNOTATIONS.say()
    patch.warn(message)


def _container(subject: Subject, name: str, volume: str) -> RemapContainer:
    settings, options = subject.policy.remap, subject.options
    keys, view = subject.visible_device_keys, _view(subject)
    return RemapContainer(
        name=name,
        claims=_claims(subject),
        volume=volume,
        image=subject.policy.remap_image,
        image_pull_policy=settings.image_pull_policy,
        view=view,
        carrier=subject.remap.carrier,
        profile=subject.profile,
        require_nvlink=options.require_nvlink,
        min_bandwidth="" if options.min_bandwidth is None else _exact(options.min_bandwidth),
        policy=str(options.policy) if required(options).of_policy else "",
        denies=options.on_violation is OnViolation.DENY,
        host_network=subject.host.network and subject.profile is Profile.NODE_PEERS,
        is_isolated=subject.is_isolated and not subject.host.pid,
        reads_file=subject.remap.reads_file,
        family=subject.family,
        nccl=subject.policy.remap_nccl,
        user_of_namespace=names.OPENSHIFT_USERS in subject.namespace.annotations,
        alignment=str(subject.alignment or ""),
        containers=",".join(
            [_entry(subject, container, view) for container in subject.containers if container.request]
        ),
        visible_device_keys=tuple(keys.values()),
    )


def _view(subject: Subject) -> View:
    if not subject.policy.remap.sees_gpus or subject.has_claims:
        return View.NONE  # a claim to which the container refers shows it GPUs, not a variable
    return View.NODE if subject.namespace.allows(names.ALLOW_NODE_GPUS) else View.POD


def _claims(subject: Subject) -> tuple[ClaimUse, ...]:
    """Returns the claims of the containers whose GPUs it verifies: to refer to a claim allocates nothing.

    Claims of extended resources are left out: to ask for such a resource would cost further GPUs before Kubernetes
    1.35, where init containers do not yet reuse those of other containers.
    """
    if not subject.policy.remap.sees_gpus:
        return ()
    requests = map(subject.gpu_request, subject.gpu_containers)
    uses = dict.fromkeys(use for request in requests if request.claimed for use in request.claimed.uses)
    whole = {use.entry for use in uses if not use.request}
    # The API server refuses one request of a claim beside all of it: validateResourceClaimNames.
    return tuple(use for use in uses if use.entry != EXTENDED and not (use.request and use.entry in whole))


def _exact(number: float) -> str:
    """Returns the shortest text that reads as the same number."""
    return repr(number).removesuffix(".0")


def _entry(subject: Subject, container: PodContainer, view: View) -> str:
    keys = subject.visible_device_keys
    number = keys[container.name].removeprefix(names.CUDA_VISIBLE_DEVICES_PREFIX) if container.name in keys else ""
    kinds = (
        ("init", container.is_init),
        ("left-out", _is_unseen(container, view)),
        ("privileged", subject.profile is Profile.POD_PEERS and container.spec.is_privileged),
    )
    flags = "+".join([flag for flag, holds in kinds if holds])
    return f"{container.name}:{container.request.count if container.request else 0}:{number}" + (
        f":{flags}" if flags else ""
    )


def _is_unseen(container: PodContainer, view: View) -> bool:
    """Returns whether the remap container sees none of the cards of a container.

    Once an ordinary init container has finished, its cards may belong to other pods, and a sidecar would still see
    them.
    """
    return container.is_left_out or (view is View.POD and container.is_init and not container.is_native_sidecar)


def _stands_behind(subject: Subject, existing: ExistingRemapContainer) -> bool:
    """Returns whether another webhook put an init container that ends ahead of our sidecar.

    HAMi 2.10.0 writes no segment for it. Later versions take the first segment for that of the first init container,
    and drop it where that has ended (``decisions/request/hami_counting.py``).
    """
    if subject.remap.carrier is not Carrier.SIDECAR or subject.family != "hami":
        return False
    return bool(ahead_of(existing.container.name, members(subject.requests.containers)))


def _mend(subject: Subject, patch: PodPatch, existing: ExistingRemapContainer, wanted: RemapContainer) -> None:
    """Brings the container of an earlier admission up to date, in form and place."""
    present, document = existing.container, existing.document
    if _stands_behind(subject, existing):
        patch.move_first(present, encode_container(wanted))
    elif not wanted.is_form_of(document):
        patch.replace_container(present, encode_container(wanted))
    elif wanted.is_hidden(document):
        # HAMi's overwriteEnv appended "none". The last entry counts, so ours is appended after it.
        if wanted.view is View.NODE:
            patch.add_variable(present, names.ENV_NVIDIA_VISIBLE_DEVICES, "all")
        else:
            patch.add_reference(present, names.ENV_NVIDIA_VISIBLE_DEVICES, annotation_reference(names.VISIBLE_UUIDS))


def _free_name(containers: Sequence[PodContainer]) -> str:
    taken = {container.name for container in containers}
    return next(name for name in numbered(names.REMAP_CONTAINER) if name not in taken)

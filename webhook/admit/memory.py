"""Remembers what became of pods, by everything that it depended on.

Pods come in bursts that differ only in what admission does not look at: 512 of one Job, the replicas of one Deployment.
Admission is a pure function, so its answer for one of them is the answer for all. Their names, ranks, the suffix of the
service account's volume and other people's annotations are not part of the key. A test admits generated pods with and
without a memory and expects the same.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from webhook.admit.entries import SHORT
from webhook.admit.request import ContainerRequest
from webhook.config import AdmitPolicy
from webhook.model import names
from webhook.model.cluster import ClusterFacts
from webhook.model.options import Options
from webhook.model.pod import (
    Container,
    EnvVar,
    InitContainer,
    Metadata,
    Namespace,
    Pod,
    PodSpec,
    is_present,
    may_contain,
)
from webhook.model.references import annotation_of

MAX_BYTES = 64 * 1024
"""Of the JSON of a pod that is worth remembering. Users can make pods as large as the API server takes (3 MiB:
apiserver pkg/server/config.go, MaxRequestBodyBytes), and no two of those alike."""
_STEERING = (names.HAMI_SCHEDULER_POLICY, names.NUMA_BIND)
_OUR_VOLUMES = (f'"{names.FILES_VOLUME}'.encode(),)  # the name of the other begins with it
_OUR_ANNOTATIONS = (names.PREFIX.encode(),)
_OUR_PATHS = (f'"{names.SHARED_MEMORY_PATH}'.encode(), f'"{names.FILES_PATH}'.encode())


_T = TypeVar("_T")


class Memory(Generic[_T]):
    """A bounded map from what matters of a pod to what follows from it. Belongs to one policy."""

    def __init__(self, size: int = 128) -> None:
        self._size = size
        self._kept: OrderedDict[Hashable, tuple[Namespace, _T]] = OrderedDict()

    def recall(self, key: Hashable, namespace: Namespace) -> _T | None:
        """What followed for an equal pod while its namespace was this very value."""
        found = self._kept.get(key)
        return found[1] if found and found[0] is namespace else None

    def keep(self, key: Hashable, namespace: Namespace, found: _T) -> None:
        """Remember what was found; the oldest goes when there are too many."""
        self._kept[key] = (namespace, found)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)


def key_of(
    pod: Pod,
    namespace: Namespace,
    policy: AdmitPolicy,
    cluster: ClusterFacts,
    options: Options,
    containers: list[ContainerRequest],
) -> Hashable | None:
    """All that the injection of a pod depends on, beside the policy; ``None`` where that is not worth the work."""
    metadata, spec = pod.metadata or Metadata(), pod.spec or PodSpec()
    if any(len(variable.value) > SHORT for variable in options.env):
        return None  # outcomes that are remembered should not hold what users can make as large as they like
    parts = []
    for one in containers:
        if isinstance(one.container, InitContainer) and one.name.startswith(names.REMAP_CONTAINER):
            return None  # a second admission, which looks at every field of the container
        if may_contain(one.container.mounts_json, _OUR_VOLUMES):
            return None  # whether a volume is ours depends on who mounts it
        parts.append(_container_key(one, policy, cluster, options))
    annotations, labels = metadata.annotations, metadata.labels
    volumes = spec.volumes_json
    return (
        namespace.name,
        cluster,
        pod.metadata is None,
        None if annotations is None else _relevant(annotations),
        None if labels is None else (labels.get(names.GROUP), names.MULTINODE_LABELS.isdisjoint(labels)),
        spec.host_ipc,
        spec.host_pid,
        spec.host_network,
        spec.share_process_namespace,
        spec.dns_policy,
        spec.runtime_class_name,
        is_present(spec.init_containers_json),
        bytes(volumes) if may_contain(volumes, _OUR_VOLUMES) else is_present(volumes),
        bytes(spec.affinity_json) if options.group else b"",
        *parts,
    )


def _variables(container: Container, policy: AdmitPolicy, options: Options) -> tuple[Hashable, ...]:
    """The entries of ``env`` that some step looks at, with their positions: a replacement names its own."""
    wanted = policy.watched + tuple([variable.name for variable in options.env])
    return tuple(
        [
            (index, one.name, one.value, _source(one))
            for index, one in enumerate(container.env or ())
            if one.name.startswith(wanted)
        ]
    )


def _referred(container: Container) -> tuple[Hashable, ...]:
    """The annotations that variables of any name refer to: one that is referred to is not removed."""
    return tuple([(one.name, annotation_of(one)) for one in container.env or ()])


def _source(variable: EnvVar) -> Hashable:
    """Where a variable's value comes from; empty for sources that no step tells apart."""
    source = variable.value_from
    if source is None:
        return None
    if source.field_ref:
        return source.field_ref.field_path
    line = source.file_key_ref
    return (line.volume_name, line.path, line.key) if line else ""


def _relevant(annotations: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        [(key, value) for key, value in annotations.items() if key.startswith(names.PREFIX) or key in _STEERING]
    )


def _container_key(
    one: ContainerRequest, policy: AdmitPolicy, cluster: ClusterFacts, options: Options
) -> tuple[Hashable, ...]:
    container, env, watched = one.container, one.container.env_json, policy.watched_json
    # The path tells init containers from others, and the sidecars among them matter on HAMi 2.10.0 alone.
    key: tuple[Hashable, ...] = (
        one.path,
        container.name,
        container.restart_policy if isinstance(container, InitContainer) else None,
        is_present(env),
        _variables(container, policy, options) if options.env or may_contain(env, watched) else (),
        _referred(container) if options.outputs and may_contain(env, _OUR_ANNOTATIONS) else (),
        bytes(container.security_context_json) if cluster.denies_privileged else b"",
    )
    resources = container.resources
    if one.request is None or resources is None:
        return key
    mounts: Hashable = is_present(container.mounts_json)
    if may_contain(container.mounts_json, _OUR_PATHS):
        mounts = tuple(
            [
                (mount.mount_path, mount.name)
                for mount in container.volume_mounts or ()
                if mount.mount_path.startswith((names.SHARED_MEMORY_PATH, names.FILES_PATH))
            ]
        )
    limits = tuple(resources.limits.items()) if resources.limits is not None else None
    requests = tuple(resources.requests.items()) if resources.requests is not None else None
    return (*key, mounts, limits, requests)

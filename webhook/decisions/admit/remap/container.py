"""The form of the remap container, and the comparison with the container of an earlier admission.

The remap container may see GPUs that it did not ask for, so no other container may pass as ours. A container with our
name and our command is brought to exactly this form, whatever else it had.
"""

from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec

from webhook.decisions.admit.entries import field_reference, literal
from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.allocation.reader import dialect_of
from webhook.decisions.claims.pod import ClaimUse
from webhook.objects.pod import annotation_path
from webhook.words import names
from webhook.words.choices import Carrier, Isolation, Profile

# Requests and limits are equal, so that a Guaranteed pod stays Guaranteed. An init container adds nothing to the needs
# of the pod (the maximum counts); a sidecar adds all of its own.
_RESOURCES = {
    Carrier.INIT: {"cpu": "500m", "memory": "64Mi"},
    Carrier.SIDECAR: {"cpu": "100m", "memory": "64Mi"},
}
_SIDECAR = {
    "restartPolicy": "Always",
    "startupProbe": {
        "exec": {"command": [*names.REMAP_COMMAND, "--mode", "probe"]},
        "periodSeconds": 1,
        "timeoutSeconds": 5,
        "failureThreshold": 60,
    },
}
_ANY_USER = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_OWN_USER = _ANY_USER | {"runAsUser": 65532, "runAsGroup": 65532}

_USUAL = 1024
"""The most characters of container and claim names in a cached container. Users may write megabytes."""

# Values that the API server fills in where we set none.
_DEFAULTS = (
    ("apiVersion", "v1"),
    ("successThreshold", 1),
    ("terminationMessagePath", "/dev/termination-log"),
    ("terminationMessagePolicy", "File"),
    ("imagePullPolicy", "Always"),
    ("imagePullPolicy", "IfNotPresent"),
)
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

# HAMi's overwriteEnv appends this entry to containers without a GPU request, and we then append ours.
_OVERRIDE = literal(names.ENV_NVIDIA_VISIBLE_DEVICES, names.NO_VISIBLE_DEVICE)


class View(StrEnum):
    """The GPUs that the remap container sees."""

    NODE = "node"
    """All GPUs of the node."""
    POD = "pod"
    """The GPUs of the pod, which bind writes into an annotation."""
    NONE = "none"


class RemapContainer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The values that the remap container depends on; equal for all pods of one workload."""

    name: str
    volume: str
    image: str
    image_pull_policy: str
    view: View
    carrier: Carrier
    profile: Profile
    require_nvlink: bool
    containers: str
    """``name:count:k`` and flags for each container that asks for GPUs, in the order in which the device plugin serves
    them."""
    visible_device_keys: tuple[str, ...]
    family: str = "hami"
    """The family whose allocation the container reads."""
    min_bandwidth: str = ""
    """GB/s per direction; empty if none is required."""
    policy: str = ""
    """The option ``policy``, if it requires something; else empty."""
    denies: bool = False
    """Whether a requirement that is not met stops the pod."""
    nccl: str = ""
    """The configuration's NCCL values as JSON; empty if they are the defaults."""
    host_network: bool = False
    """Whether the pod is in the host's network and has profile ``node-peers``: only there it matters."""
    is_isolated: bool = False
    """Whether it gives the processes of the pod other IDs than those of its peers."""
    reads_file: bool = False
    """Whether containers take values from the env file."""
    claims: tuple[ClaimUse, ...] = ()
    """The claims whose GPUs the container sees."""
    user_of_namespace: bool = False
    """Whether the namespace gives the container its user, as OpenShift does: it refuses another one."""
    alignment: str = ""
    """The pod's ``hami.io/numa-alignment``, with which HAMi may change the allocation after the Binding; else empty."""

    def build(self) -> dict[str, Any]:
        """Returns the container as it stands in ``spec.initContainers``."""
        container: dict[str, Any] = {"name": self.name, "image": self.image}
        if self.image_pull_policy:
            container["imagePullPolicy"] = self.image_pull_policy
        container["command"] = list(names.REMAP_COMMAND)
        container["args"] = ["--mode", str(self.carrier)]
        if self.carrier is Carrier.SIDECAR:
            container |= _SIDECAR
        container["env"] = list(self.environment())
        container["volumeMounts"] = [{"name": self.volume, "mountPath": names.FILES_PATH}]
        container["resources"] = {"requests": _RESOURCES[self.carrier], "limits": _RESOURCES[self.carrier]}
        if self.claims:
            container["resources"]["claims"] = [_reference(use) for use in self.claims]
        container["securityContext"] = _ANY_USER if self.user_of_namespace else _OWN_USER
        return container

    def environment(self) -> Iterator[dict[str, Any]]:
        """Yields the entries of its ``env``."""
        yield literal(names.ENV_DISABLE_CONTROL, "true")
        visible = self.visible_devices()
        if visible:
            yield visible
            yield literal(names.ENV_NVIDIA_DRIVER_CAPABILITIES, "utility")
        yield literal(names.REMAP_PROFILE, str(self.profile))
        yield literal(names.REMAP_REQUIRE_NVLINK, "true" if self.require_nvlink else "false")
        yield literal(names.REMAP_CONTAINERS, self.containers)
        yield from self._particulars()
        yield field_reference(names.REMAP_NODE_NAME, "spec.nodeName")
        yield field_reference(names.REMAP_ALLOCATION, annotation_path(dialect_of(self.family).key))
        yield field_reference(names.REMAP_NODE_TOPOLOGY, annotation_path(names.NODE_TOPOLOGY))
        for key in self.visible_device_keys:
            number = key.removeprefix(names.CUDA_VISIBLE_DEVICES_PREFIX)
            yield field_reference(names.REMAP_CUDA_VISIBLE_DEVICES_PREFIX + number, annotation_path(key))
        if self.reads_list:
            yield field_reference(names.REMAP_VISIBLE_UUIDS, annotation_path(names.VISIBLE_UUIDS))
        elif self.reads_bound_list:
            yield field_reference(names.REMAP_BOUND_UUIDS, annotation_path(names.VISIBLE_UUIDS))

    @property
    def reads_list(self) -> bool:
        """True if the container reads the annotation with the GPUs that the pod's containers see."""
        return self.view is View.POD or (self.profile is Profile.POD_PEERS and self.family != CLAIM)

    @property
    def reads_bound_list(self) -> bool:
        """True if the container reads the GPUs of the Binding only to see whether the allocation was changed since."""
        return bool(self.alignment) and self.view is View.NODE and self.profile is Profile.EXCLUSIVE

    @property
    def size(self) -> int:
        """The number of characters of names that a user chose."""
        return len(self.containers) + sum(len(use.entry) + len(use.request) for use in self.claims)

    def visible_devices(self) -> dict[str, Any] | None:
        """Returns the entry of ``env`` that shows GPUs to the container; ``None`` if there is none."""
        if self.view is View.NODE:
            return literal(names.ENV_NVIDIA_VISIBLE_DEVICES, "all")
        if self.view is View.POD:
            return field_reference(names.ENV_NVIDIA_VISIBLE_DEVICES, annotation_path(names.VISIBLE_UUIDS))
        return None

    def _particulars(self) -> Iterator[dict[str, Any]]:
        """Yields the entries of ``env`` that most pods do not have."""
        for name, value in (
            (names.REMAP_MIN_BANDWIDTH, self.min_bandwidth),
            (names.REMAP_POLICY, self.policy),
            (names.REMAP_ON_VIOLATION, "deny" if self.denies else ""),
            (names.REMAP_ALLOCATED_BY, "" if self.family == "hami" else self.family),
            (names.REMAP_NCCL, self.nccl),
            (names.REMAP_HOST_NETWORK, "true" if self.host_network else ""),
            (names.REMAP_ISOLATION, str(Isolation.ISOLATED) if self.is_isolated else ""),
            (names.REMAP_ENVIRONMENT, "file" if self.reads_file else ""),
            (names.REMAP_NUMA_ALIGNMENT, self.alignment),
        ):
            if value:
                yield literal(name, value)

    def is_form_of(self, document: dict[str, Any]) -> bool:
        """Returns whether a container is this one, apart from additions of the API server and HAMi."""
        wanted = self.build()
        rest = {key: value for key, value in document.items() if key not in ("env", "volumeMounts")}
        if self.user_of_namespace:
            rest["securityContext"] = _without_given_user(rest.get("securityContext"))
        expected = {key: value for key, value in wanted.items() if key not in ("env", "volumeMounts")}
        mounts = [mount for mount in document.get("volumeMounts") or [] if mount.get("mountPath") != _SERVICE_ACCOUNT]
        env = document.get("env") or []
        count = len(wanted["env"])
        return (
            _same(rest, expected)
            and _same(mounts, wanted["volumeMounts"])
            and _same(env[:count], wanted["env"])
            and all(entry == _OVERRIDE or _same(entry, self.visible_devices()) for entry in env[count:])
        )

    def is_hidden(self, document: dict[str, Any]) -> bool:
        """Returns whether an entry that HAMi appended to a container of this form hides the GPUs from it."""
        entries = [entry for entry in document["env"] if entry["name"] == names.ENV_NVIDIA_VISIBLE_DEVICES]
        return self.view is not View.NONE and not _same(entries[-1], self.visible_devices())


def _reference(use: ClaimUse) -> dict[str, str]:
    """Returns an entry of ``resources.claims``."""
    return {"name": use.entry, "request": use.request} if use.request else {"name": use.entry}


def encode_container(container: RemapContainer) -> msgspec.Raw:
    """Returns the container as JSON, which is the larger half of every patch."""
    return (_encode_usual if container.size <= _USUAL else _encode)(container)


def _encode(container: RemapContainer) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(container.build()))


_encode_usual = lru_cache(maxsize=64)(_encode)


def _without_given_user(context: Any) -> Any:
    """Returns a security context without the user that OpenShift wrote into it before our second look.

    If we took the user out again, OpenShift would refuse the pod: no one writes it a third time. The user 0 stays.
    """
    given = context.get("runAsUser") if isinstance(context, dict) else None
    if type(given) is not int or given <= 0:
        return context
    return {key: value for key, value in context.items() if key != "runAsUser"}


def _same(found: Any, expected: Any) -> bool:
    """Returns whether ``found`` equals ``expected``, apart from defaults that the API server has added."""
    if isinstance(expected, dict):
        if not isinstance(found, dict) or not found.keys() >= expected.keys():
            return False
        return all(_same(found[key], expected[key]) for key in expected) and all(
            (key, value) in _DEFAULTS for key, value in found.items() if key not in expected
        )
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(_same, found, expected))
    return bool(found == expected)

"""Mounts and volumes of the user's in our places: theirs stay as they are, and ours are not theirs to write."""

import posixpath
from itertools import product
from typing import Any

import pytest

from tests.judge import judge
from tests.pods import ALL_ALLOWED, SHARED_MEMORY, Manifest, container, find_container, pod
from webhook.words.outcome import Kind, Reason

FILES = "/run/gpu-topology"
SOURCES: list[Manifest] = [
    {"emptyDir": {}},
    {"emptyDir": None},
    {"emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
    {"emptyDir": {"sizeLimit": "9Mi"}},
    {"emptyDir": {"sizeLimit": "8Gi"}},
    {"hostPath": {"path": "/"}},
    {"hostPath": {"path": "/run/gpu-topology", "type": "DirectoryOrCreate"}},
    {"persistentVolumeClaim": {"claimName": "data"}},
    {"configMap": {"name": "c"}},
    {"secret": {"secretName": "s"}},
    {"projected": {"sources": [{"configMap": {"name": "c"}}]}},
    {"downwardAPI": {"items": []}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    {"csi": {"driver": "d"}},
    {"image": {"reference": "registry.local/files:1"}},
    {"nfs": {"server": "s", "path": "/"}},
    {"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0}},
    {"fc": {"wwids": ["w"]}},
    {"rbd": {"monitors": ["m"], "image": "i"}},
    {"cephfs": {"monitors": ["m"]}},
    {"flexVolume": {"driver": "d"}},
    {"gitRepo": {"repository": "r"}},
    {"future": {"x": 1}},
    {},
]


def written_volume(after: Manifest) -> Manifest:
    """The volume that our container writes to, and all that it mounts."""
    (ours,) = (
        container for container in after["spec"]["initContainers"] if container["name"].startswith("gpu-topology-remap")
    )
    (mount,) = ours["volumeMounts"]
    assert mount["mountPath"] == FILES
    (volume,) = (volume for volume in after["spec"]["volumes"] if volume["name"] == mount["name"])
    return dict(volume)


def writers(after: Manifest, volume: str) -> list[str]:
    """The containers of the user's that can write to a volume."""
    spec = after["spec"]
    return [
        container["name"]
        for container in [*spec["initContainers"], *spec["containers"]]
        if not container["name"].startswith("gpu-topology-remap")
        for mount in container.get("volumeMounts", [])
        if mount["name"] == volume and not mount.get("readOnly")
    ]


def test_a_volume_with_our_name_and_another_source_stays_and_is_not_written(subtests: pytest.Subtests) -> None:
    for name, source in product(("gpu-topology", "gpu-topology-2"), SOURCES):
        with subtests.test(name=name, source=source):
            theirs = {"name": name, **source}
            writer = container("writer", None, volumeMounts=[{"name": name, "mountPath": "/data"}])
            _, after = judge(pod(container(), writer, volumes=[theirs]))
            assert theirs in after["spec"]["volumes"]
            volume = written_volume(after)
            assert volume == {"name": volume["name"], "emptyDir": {"sizeLimit": "8Mi"}}
            assert volume != theirs
            assert writers(after, volume["name"]) == []


@pytest.mark.parametrize(
    "mount",
    [
        {"mountPath": "/data"},
        {"mountPath": "/data", "readOnly": False},
        {"mountPath": "/data", "subPath": "x"},
        {"mountPath": "/data", "subPathExpr": "$(X)"},
        {"mountPath": "/data", "mountPropagation": "Bidirectional"},
        {"mountPath": "/data", "recursiveReadOnly": "Enabled"},
        {"mountPath": "/run"},
    ],
    ids=str,
)
@pytest.mark.parametrize("where", ["containers", "initContainers"])
@pytest.mark.parametrize("gpus", [None, 1])
def test_a_volume_like_ours_that_somebody_can_write_to_is_not_ours(
    where: str, gpus: int | None, mount: dict[str, Any]
) -> None:
    like_ours = {"name": "gpu-topology", "emptyDir": {"sizeLimit": "8Mi"}}
    manifest = pod(container(), volumes=[like_ours], initContainers=[])
    manifest["spec"][where].append(container("writer", gpus, volumeMounts=[{"name": "gpu-topology", **mount}]))
    _, after = judge(manifest)
    assert writers(after, written_volume(after)["name"]) == []


AROUND_FILES = [
    FILES + "/",
    FILES + "//",
    FILES + "/.",
    "/run//gpu-topology",
    "//run/gpu-topology",
    "/run/./gpu-topology",
    "/run/x/../gpu-topology",
    "/run",
    "/run/",
    "/",
    "/var/run/gpu-topology",
    FILES + "/nccl-topo.xml",
    FILES + "/env",
    FILES + "/x",
    "run/gpu-topology",
    "",
]
AROUND_MEMORY = [
    "/dev",
    "/dev/",
    "/dev//shm",
    "/dev/./shm",
    "/dev/x/../shm",
    SHARED_MEMORY + "/x",
    SHARED_MEMORY + "//",
]


def test_a_mount_around_our_paths_stays_as_it_is_or_refuses_the_pod(subtests: pytest.Subtests) -> None:
    for profile, path in product(("exclusive", "pod-peers"), (*AROUND_FILES, *AROUND_MEMORY)):
        with subtests.test(profile=profile, path=path):
            theirs = {"name": "data", "mountPath": path}
            manifest = pod(
                container(volumeMounts=[theirs]),
                container("other", 1),
                annotations={"gpu.topology/profile": profile},
                volumes=[{"name": "data", "emptyDir": {}}],
            )
            outcome, after = judge(manifest)
            if not outcome.allowed:
                assert outcome.reason == Reason.MOUNT_PATH_TAKEN
                assert posixpath.normpath(path) == FILES
                continue
            assert outcome.kind is Kind.PATCH
            assert find_container(after, "train")["volumeMounts"][0] == theirs
            assert written_volume(after)["name"] == "gpu-topology"
            assert writers(after, "gpu-topology") == []


@pytest.mark.parametrize("field", ["subPath", "subPathExpr"])
def test_a_part_of_a_volume_at_our_path_is_in_the_way_as_well(field: str) -> None:
    mount = {"name": "data", "mountPath": FILES, field: "part"}
    outcome, _ = judge(pod(container(volumeMounts=[mount]), volumes=[{"name": "data", "emptyDir": {}}]))
    assert outcome.reason == Reason.MOUNT_PATH_TAKEN


def test_a_device_at_our_path_is_no_mount_and_stays() -> None:
    devices = [{"name": "disk", "devicePath": FILES}]
    _, after = judge(pod(container(volumeDevices=devices)))
    assert find_container(after, "train")["volumeDevices"] == devices


@pytest.mark.parametrize("profile", ["exclusive", "pod-peers", "node-peers"])
def test_the_mount_of_lmcaches_operator_is_enough_in_every_profile(profile: str) -> None:
    volume = {"name": "lmcache-dev-shm", "hostPath": {"path": SHARED_MEMORY, "type": "Directory"}}
    mounts = [{"name": "lmcache-dev-shm", "mountPath": SHARED_MEMORY}]
    manifest = pod(
        container("main", volumeMounts=mounts), annotations={"gpu.topology/profile": profile}, volumes=[volume]
    )
    outcome, after = judge(manifest, ALL_ALLOWED)
    assert outcome.reason is Reason.INJECTED
    found = find_container(after, "main")["volumeMounts"]
    assert [mount["name"] for mount in found if mount["mountPath"] == SHARED_MEMORY] == ["lmcache-dev-shm"]
    bare, after = judge(pod(container("main"), annotations={"gpu.topology/profile": profile}), ALL_ALLOWED)
    has_ours = any(mount["mountPath"] == SHARED_MEMORY for mount in find_container(after, "main")["volumeMounts"])
    assert bare.reason is Reason.INJECTED
    assert has_ours is (profile != "node-peers")  # where pods share the host's, the operator adds its mount

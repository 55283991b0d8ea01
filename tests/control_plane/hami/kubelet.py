"""The part of a kubelet that device plugins see: it takes their registration, and asks them for the devices of pods.

It asks container by container, first for init containers, as the kubelet does, and for whichever ids come first: HAMi's
plugin takes the cards from the pod's annotations.
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from tests.programs.server.conftest import until

API, SERVICES = grpc.protos_and_services("tests/control_plane/hami/device_plugin_api.proto")
WAIT_S = 60.0


@dataclass(frozen=True)
class Allocated:
    """What a device plugin gives one container.

    Attributes:
        environment: Variables; those of the container's own come after them.
        mounts: Paths in the container, and where they are on the node.
        devices: Paths of device nodes.
        cdi: Qualified names.
    """

    environment: Mapping[str, str]
    mounts: Mapping[str, str]
    devices: tuple[str, ...]
    annotations: Mapping[str, str]
    cdi: tuple[str, ...]


@dataclass
class Kubelet:
    """What registers at ``kubelet.sock`` of a directory."""

    directory: Path
    endpoints: dict[str, str] = field(default_factory=dict)
    """Sockets by the names of resources."""

    def devices(self, resource: str) -> list[str]:
        """The ids that the plugin lists, once it has registered."""
        until(lambda: resource in self.endpoints, f"a device plugin for {resource}")
        with self._plugin(resource) as plugin:
            listed = plugin.ListAndWatch(API.Empty(), timeout=WAIT_S)
            return sorted(device.ID for device in next(iter(listed)).devices)

    def starts(self, pod: Mapping[str, Any], resource: str) -> dict[str, Allocated]:
        """What each container with this resource gets, by its name.

        Raises:
            grpc.RpcError: the plugin refuses.
        """
        ids = self.devices(resource)
        found: dict[str, Allocated] = {}
        with self._plugin(resource) as plugin:
            for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
                count = int(container.get("resources", {}).get("limits", {}).get(resource, 0))
                if count:
                    request = API.ContainerAllocateRequest(devices_ids=ids[:count])
                    answer = plugin.Allocate(API.AllocateRequest(container_requests=[request]), timeout=WAIT_S)
                    (found[container["name"]],) = map(_allocated, answer.container_responses)
        return found

    def prefers(self, resource: str, count: int, offered: Iterable[str]) -> list[str]:
        """The ids that the plugin would give the first container of the pod that is being admitted; empty for any.

        Args:
            resource: Of the container.
            count: How many.
            offered: The ids among which the kubelet's Topology Manager lets it choose.
        """
        request = API.ContainerPreferredAllocationRequest(available_deviceIDs=offered, allocation_size=count)
        with self._plugin(resource) as plugin:
            asked = API.PreferredAllocationRequest(container_requests=[request])
            answer = plugin.GetPreferredAllocation(asked, timeout=WAIT_S)
        return [name for response in answer.container_responses for name in response.deviceIDs]

    @contextmanager
    def _plugin(self, resource: str) -> Iterator[Any]:
        with grpc.insecure_channel(f"unix://{self.directory / self.endpoints[resource]}") as channel:
            yield SERVICES.DevicePluginStub(channel)


@contextmanager
def running_kubelet(directory: Path) -> Iterator[Kubelet]:
    """Listens in ``device-plugins`` of the directory, whose path is short: it has Unix sockets."""
    kubelet = Kubelet(directory / "device-plugins")
    kubelet.directory.mkdir()

    class Registration(SERVICES.RegistrationServicer):  # type: ignore[misc,name-defined]  # made at run time
        def Register(self, request: Any, context: object) -> object:  # noqa: ARG002, N802 - names of the API
            kubelet.endpoints[request.resource_name] = request.endpoint
            return API.Empty()

    server = grpc.server(ThreadPoolExecutor(2))
    SERVICES.add_RegistrationServicer_to_server(Registration(), server)
    server.add_insecure_port(f"unix://{kubelet.directory / 'kubelet.sock'}")
    server.start()
    try:
        yield kubelet
    finally:
        server.stop(None).wait()


def _allocated(answer: Any) -> Allocated:
    return Allocated(
        environment=dict(answer.envs),
        mounts={mount.container_path: mount.host_path for mount in answer.mounts},
        devices=tuple(device.container_path for device in answer.devices),
        annotations=dict(answer.annotations),
        cdi=tuple(device.name for device in answer.cdi_devices),
    )

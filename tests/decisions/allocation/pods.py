"""Containers and GPUs of the tests."""

from dataclasses import dataclass

from webhook.decisions.allocation.assignment import assign
from webhook.decisions.allocation.model import Allocation, Device

A = "GPU-aaaaaaaa-e98b-a25b-5b0d-cf5c855d1448"
B = "GPU-bbbbbbbb-e98b-a25b-5b0d-cf5c855d1448"
C = "GPU-cccccccc-e98b-a25b-5b0d-cf5c855d1448"
D = "GPU-dddddddd-e98b-a25b-5b0d-cf5c855d1448"

_LETTERS = {"A": A, "B": B, "C": C, "D": D}


@dataclass(frozen=True)
class Container:
    name: str
    count: int
    is_init: bool = False


def whole(uuid: str, *, mig: str = "") -> Device:
    """A card as HAMi gives it to a pod that asks for all of it."""
    return Device(uuid=uuid, memory_mib=81559, cores=100, mig=mig)


def spelled(value: str) -> str:
    """``A:B:;`` with the four fields of each GPU in place of its letter."""
    return "".join(f"{_LETTERS[sign]},NVIDIA,81559,100" if sign in _LETTERS else sign for sign in value)


def pod(*, init: tuple[int, ...] = (), app: tuple[int, ...] = ()) -> list[Container]:
    """A pod whose containers ask for so many GPUs: init-0, init-1, app-0 and so on."""
    inits = [Container(f"init-{position}", count, is_init=True) for position, count in enumerate(init)]
    return inits + [Container(f"app-{position}", count) for position, count in enumerate(app)]


def given(allocation: Allocation, containers: list[Container]) -> dict[str, list[str]]:
    """By container, the UUIDs that it got."""
    return {
        container.name: [device.uuid for device in devices] for container, devices in assign(allocation, containers)
    }

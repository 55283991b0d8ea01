"""The GPUs that claims ask for, read from their specs: all that is known of a pod's GPUs when it is created."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from webhook.decisions.claims.pod import EXTENDED, ClaimUse, claim_uses
from webhook.decisions.configuration import ClaimDriver, ClaimSettings
from webhook.objects.claims import ClaimSpec, DeviceConfiguration, DeviceRequest, ExactRequest
from webhook.objects.pod import Pod
from webhook.words import names
from webhook.words.catalogue.claims import PART_BY_CAPACITY, PART_BY_CLASS, PART_BY_SHARING
from webhook.words.catalogue.entry import Message

ALL = "All"


class ClaimedGpus(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that a container gets by claims."""

    uses: tuple[ClaimUse, ...]
    """The claims with GPUs that the container uses."""
    count: int = 0
    """The number of GPUs; 0 where it is open until the claims are allocated."""
    is_known: bool = True
    """Whether the devices are known to be GPUs. A claim that cannot be read may be for any device."""
    part: Message | None = None
    """The reason why the GPUs are parts, or shared with others; ``None`` if they are whole."""
    preloading_driver: str = ""
    """The driver that preloads HAMi's library into the container; empty if none does."""

    @property
    def is_extended(self) -> bool:
        """Whether the container asks for an extended resource, which a claim serves."""
        return all(use.entry == EXTENDED for use in self.uses)


class ClaimView(msgspec.Struct, frozen=True, kw_only=True):
    """The claims of a pod, as they are known when its requests are read."""

    settings: ClaimSettings
    containers: Mapping[str, ClaimedGpus] = {}
    """The GPUs that containers get by claims, by the names of the containers."""
    resources: frozenset[str] = frozenset()
    """Extended resources that claims serve."""
    preloading_driver: str = ""
    """The driver that serves these resources and preloads HAMi's library; empty if none does."""

    def of_resource(self, resource: str, count: int) -> ClaimedGpus | None:
        """Returns the GPUs for a container that asks for an extended resource; ``None`` if no claim serves it.

        A DeviceClass also serves the resource that is named after it: k8s.io/api resource/v1, DeviceClassSpec.
        """
        uses = (ClaimUse(EXTENDED, ""),)
        if resource in self.resources:
            return ClaimedGpus(uses=uses, count=count, preloading_driver=self.preloading_driver)
        name = resource.removeprefix(names.CLASS_RESOURCE_PREFIX)
        driver = self.settings.driver_of_class(name) if name != resource else None
        if driver is None:
            return None
        is_part = name in driver.part_classes
        return ClaimedGpus(
            uses=uses,
            count=count,
            part=PART_BY_CLASS.say(request=resource, device_class=name) if is_part else None,
            preloading_driver=driver.name if driver.preloads_library else "",
        )


NO_CLAIMS = ClaimView(settings=ClaimSettings())
"""The view where claims are not looked at, or the pod has none."""


def claimed_by_specs(
    pod: Pod, specs: Mapping[str, ClaimSpec | None], settings: ClaimSettings
) -> dict[str, ClaimedGpus]:
    """Reads the GPUs that containers get by claims, by their names; without containers that get none.

    Args:
        pod: The pod.
        specs: The specs of its claims, or of the templates that these are made from, by entries of
            ``spec.resourceClaims``. A spec that cannot be read is ``None`` or missing.
        settings: The drivers that publish GPUs.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    different = {id(spec): spec for spec in specs.values() if spec}  # many entries may be of one claim
    read = {key: dict(_gpu_requests(spec, settings)) for key, spec in different.items()}
    found, asked = {}, {entry: read[id(spec)] for entry, spec in specs.items() if spec}
    for container, uses in claim_uses(pod).items():
        claimed = _of_container(tuple(use for use in uses if use.entry != EXTENDED), asked)
        if claimed:
            found[container] = claimed
    return found


def _of_container(uses: Sequence[ClaimUse], requests: Mapping[str, dict[str, "_Asked"]]) -> ClaimedGpus | None:
    kept, unknown, asked = list[ClaimUse](), list[ClaimUse](), dict[tuple[str, str], _Asked]()
    for use in uses:
        by_name = requests.get(use.entry)
        if by_name is None:
            unknown.append(use)
            continue
        named = [use.request] if use.request in by_name else [] if use.request else list(by_name)
        if named:
            kept.append(use)
            asked |= {(use.entry, name): by_name[name] for name in named}
    if not asked:
        return ClaimedGpus(uses=tuple(unknown), is_known=False) if unknown else None
    counts = [gpus.count for gpus in asked.values()]
    return ClaimedGpus(
        uses=tuple(kept),
        count=sum(counts) if all(counts) and not unknown else 0,
        part=next((gpus.part for gpus in asked.values() if gpus.part), None),
        preloading_driver=next((gpus.driver.name for gpus in asked.values() if gpus.driver.preloads_library), ""),
    )


class _Asked(msgspec.Struct, frozen=True):
    """The GPUs that one request asks for."""

    driver: ClaimDriver
    count: int
    part: Message | None


def _gpu_requests(spec: ClaimSpec, settings: ClaimSettings) -> Iterable[tuple[str, _Asked]]:
    devices = spec.devices
    sharings = read_sharings((devices.config if devices else None) or ())
    for request in (devices.requests if devices else None) or ():
        asked = _asked(request, sharings, settings)
        if asked:
            yield request.name, asked


def _asked(request: DeviceRequest, sharings: Sequence["Sharing"], settings: ClaimSettings) -> _Asked | None:
    """Reads a request; ``None`` if it asks for no GPU, or only for administrative access to GPUs of others."""
    alternatives = [
        (alternative, driver)
        for alternative in request.alternatives
        if not alternative.admin_access and (driver := settings.driver_of_class(alternative.device_class_name))
    ]
    if not alternatives:
        return None
    counts = {_count(alternative) for alternative, _ in alternatives}
    parts = (_part(request.name, alternative, driver) for alternative, driver in alternatives)
    driver = alternatives[0][1]
    sharing = sharing_of(sharings, request.name, {found.name for _, found in alternatives})
    return _Asked(
        driver=driver,
        count=counts.pop() if len(counts) == 1 else 0,
        part=next(filter(None, parts), None) or (PART_BY_SHARING.say(how=sharing) if sharing else None),
    )


def _count(alternative: ExactRequest) -> int:
    """Returns the number of devices; 0 where it is open."""
    if alternative.allocation_mode == ALL:
        return 0
    return 1 if alternative.count is None else max(0, alternative.count)


def _part(request: str, alternative: ExactRequest, driver: ClaimDriver) -> Message | None:
    if alternative.device_class_name in driver.part_classes:
        return PART_BY_CLASS.say(request=request, device_class=alternative.device_class_name)
    if alternative.capacity and alternative.capacity.requests:
        amounts = ", ".join(alternative.capacity.requests)
        return PART_BY_CAPACITY.say(request=request, amounts=amounts)
    return None


class Sharing(NamedTuple):
    """A configuration of a claim by which GPUs are shared."""

    driver: str
    requests: frozenset[str]
    """The requests that it is for; empty: all."""
    how: str
    """The way, such as ``TimeSlicing``."""


def read_sharings(configurations: Iterable[DeviceConfiguration]) -> list[Sharing]:
    """Returns the configurations by which a claim shares its GPUs.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu, api/nvidia.com/resource/v1beta1/sharing.go.
    """
    found = []
    for configuration in configurations:
        opaque = configuration.opaque
        sharing = opaque.parameters.get("sharing") if opaque and isinstance(opaque.parameters, dict) else None
        if opaque and isinstance(sharing, dict):
            strategy = sharing.get("strategy")
            how = strategy if isinstance(strategy, str) and strategy else "sharing"
            meant = frozenset(name.partition("/")[0] for name in configuration.requests or ())
            found.append(Sharing(opaque.driver, meant, how))
    return found


def sharing_of(sharings: Iterable[Sharing], request: str, drivers: Collection[str]) -> str:
    """Returns the way in which the GPUs of a request are shared; empty if they are not."""
    return next(
        (each.how for each in sharings if each.driver in drivers and request in (each.requests or (request,))), ""
    )

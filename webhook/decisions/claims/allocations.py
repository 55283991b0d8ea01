"""The GPUs that claims were given, read from their allocations and from the ResourceSlices of the devices.

When the Binding of a pod is reviewed, each of its claims is allocated and reserved for the pod: kube-scheduler writes
both before it binds (pkg/scheduler/framework/plugins/dynamicresources, PreBind).
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from webhook.decisions.allocation.model import Allocation, Device
from webhook.decisions.claims.pod import EXTENDED, ClaimUse, claim_names, claim_uses
from webhook.decisions.claims.requests import (
    NO_CLAIMS,
    ClaimedGpus,
    ClaimView,
    claimed_by_specs,
    read_sharings,
    sharing_of,
)
from webhook.decisions.claims.slices import MissingDevice, Pools, PublishedDevice, are_one_partition
from webhook.decisions.configuration import ClaimSettings
from webhook.decisions.resolve.resolve import Unresolved, UnresolvedError
from webhook.objects.claims import ResourceClaim, Result
from webhook.objects.pod import Pod, Quantity
from webhook.words.catalogue.claims import (
    CLAIM_IS_NO_PARTITION,
    CLAIM_MISSING,
    CLAIM_NOT_ALLOCATED,
    CLAIM_NOT_MADE,
    CLAIM_NOT_RESERVED,
    CLAIM_OF_ANOTHER_POD,
    DEVICE_SHARED,
    DEVICE_WITHOUT_UUID,
    PART_BY_SHARING,
)
from webhook.words.catalogue.entry import Message
from webhook.words.errors import FormatError
from webhook.words.quantity import parse_quantity


class GivenGpus(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that a pod was given by claims."""

    containers: Mapping[str, ClaimedGpus]
    """The GPUs of each container, by its name; without containers that have none."""
    allocation: Allocation = Allocation()
    """The allocation of the GPUs; empty where there is a problem."""
    problem: UnresolvedError | None = None
    """The reason why the GPUs are not known; None if they are."""
    shared_with: int = 0
    """The number of other pods for which the claims are reserved now."""
    no_partition: Message | None = None
    """Why the driver will not prepare a claim whose GPUs are not one partition of the NVSwitches; ``None`` if nothing
    says that it will not."""

    @property
    def keeps_devices(self) -> bool:
        """Whether the pod keeps the same devices after its Binding was refused.

        Only a claim for extended resources is then deleted and made anew: kube-scheduler,
        pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.
        """
        return any(not claimed.is_extended for claimed in self.containers.values())

    def view(self, settings: ClaimSettings) -> ClaimView:
        """Returns the claims as they are needed to read the requests of the pod."""
        return ClaimView(settings=settings, containers=self.containers) if self.containers else NO_CLAIMS


NOTHING_GIVEN = GivenGpus(containers={})


def given_gpus(
    pod: Pod, claims: Mapping[str, ResourceClaim], pools: Pools, settings: ClaimSettings, *, node: str = ""
) -> GivenGpus:
    """Reads the GPUs that a pod was given by claims.

    Args:
        pod: The pod.
        claims: The ResourceClaims of the pod that exist, by their names.
        pools: The devices that are published.
        settings: The drivers that publish GPUs.
        node: The node to which the pod goes; empty: not known.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    names = claim_names(pod).by_entry
    of_entries = {entry: claims[name] for entry, name in names.items() if name in claims}
    containers = claimed_by_specs(pod, {entry: claim.spec for entry, claim in of_entries.items()}, settings)
    reading = _Reading(pod, names, of_entries, pools, settings, node)
    segments: dict[str, tuple[Device, ...]] = {}
    try:
        for container, uses in claim_uses(pod).items():
            devices = reading.devices(uses)
            if devices:
                segments[container] = devices
                containers[container] = _told(containers.get(container), uses, len(devices))
    except UnresolvedError as error:
        return GivenGpus(containers=containers, problem=error)
    kept = {container: claimed for container, claimed in containers.items() if container in segments}
    return GivenGpus(
        containers=kept,
        allocation=Allocation(segments=tuple(segments.values()), containers=tuple(segments)),
        shared_with=reading.others,
        no_partition=reading.no_partition,
    )


def _told(claimed: ClaimedGpus | None, uses: Sequence[ClaimUse], count: int) -> ClaimedGpus:
    found = claimed or ClaimedGpus(uses=tuple(uses))
    return msgspec.structs.replace(found, count=count, is_known=True)


class _Reading:
    """Reads the claims of one pod, each once."""

    def __init__(
        self,
        pod: Pod,
        names: Mapping[str, str],
        claims: Mapping[str, ResourceClaim],
        pools: Pools,
        settings: ClaimSettings,
        node: str,
    ) -> None:
        self._uid = (pod.metadata.uid if pod.metadata else None) or ""
        self._names, self._claims, self._pools, self._settings, self._node = names, claims, pools, settings, node
        self._results: dict[str, list[tuple[Result, Device]]] = {}
        self.others = 0
        self.no_partition: Message | None = None

    def devices(self, uses: Iterable[ClaimUse]) -> tuple[Device, ...]:
        """Returns the GPUs of a container, each once: two requests may be served by one device.

        Raises:
            UnresolvedError: the GPUs are not known.
        """
        found = dict[tuple[str, str], Device]()
        for use in uses:
            for result, device in self._of_entry(use.entry):
                if use.request in ("", result.request.partition("/")[0]):
                    found[device.uuid, device.mig] = device
        return tuple(found.values())

    def _of_entry(self, entry: str) -> list[tuple[Result, Device]]:
        if entry not in self._results:
            self._results[entry] = list(self._read(entry))
        return self._results[entry]

    def _read(self, entry: str) -> Iterable[tuple[Result, Device]]:
        name, claim = self._names.get(entry), self._claims.get(entry)
        if name is None:
            if entry == EXTENDED:
                return  # the scheduler needed no claim
            raise UnresolvedError(Unresolved.NO_ALLOCATION, CLAIM_NOT_MADE.say(entry=entry))
        if claim is None:
            raise UnresolvedError(Unresolved.NO_ALLOCATION, CLAIM_MISSING.say(claim=name))
        devices = claim.allocation
        if devices is None:
            raise UnresolvedError(Unresolved.NO_ALLOCATION, CLAIM_NOT_ALLOCATED.say(claim=name))
        ours = [
            result
            for result in devices.results or ()
            if not result.admin_access and self._settings.driver(result.driver)
        ]
        if not ours:
            return
        self._check_consumers(name, claim)
        published = list[tuple[Result, PublishedDevice]]()
        sharings = read_sharings(devices.config or ())
        for result in ours:
            if how := sharing_of(sharings, result.request.partition("/")[0], {result.driver}):
                raise UnresolvedError(Unresolved.SHARED_DEVICE, PART_BY_SHARING.say(how=how))
            published.append((result, self._published(result)))
            yield result, _device(name, *published[-1])
        lookers = {result.driver for result in devices.results or () if result.admin_access}
        self._check_partition(name, [each for each in published if each[0].driver not in lookers])

    def _check_partition(self, claim: str, published: Iterable[tuple[Result, PublishedDevice]]) -> None:
        """Notes it if a driver with partitions of the NVSwitches will refuse to prepare the GPUs of a claim.

        It looks at all whole GPUs of the claim together, whatever their requests are, and at none where the claim has
        admin access: dra-driver-nvidia-gpu 0.5.0, cmd/gpu-kubelet-plugin/device_state.go, activateFabricPartition.
        """
        gpus: dict[str, dict[str, PublishedDevice]] = {}
        for result, found in published:
            if found.is_whole and self._pools.uses_partitions(result.driver, result.pool, node=self._node):
                gpus.setdefault(result.driver, {})[found.uuid] = found
        for members in gpus.values():
            if not are_one_partition(members.values()):
                self.no_partition = CLAIM_IS_NO_PARTITION.say(claim=claim, count=len(members))

    def _check_consumers(self, name: str, claim: ResourceClaim) -> None:
        """Raises UnresolvedError if a claim belongs to another pod, or is not reserved for this one.

        The name may be that of such a claim because the claim was made anew, or because a user wrote the name.
        """
        controllers = [owner.uid for owner in claim.metadata.owner_references or () if owner.controller]
        if controllers and self._uid and self._uid not in controllers:
            raise UnresolvedError(Unresolved.BAD_ALLOCATION, CLAIM_OF_ANOTHER_POD.say(claim=name))
        consumers = claim.consumers
        pods = {consumer.uid for consumer in consumers if consumer.resource == "pods"}
        if self._uid and self._uid not in pods and len(pods) == len(consumers):
            raise UnresolvedError(Unresolved.STALE_ALLOCATION, CLAIM_NOT_RESERVED.say(claim=name))
        self.others = max(self.others, len(consumers) - 1)

    def _published(self, result: Result) -> PublishedDevice:
        try:
            found = self._pools.device(result.driver, result.pool, result.device, node=self._node)
        except MissingDevice as error:
            raise UnresolvedError(Unresolved.BAD_ALLOCATION, error.message) from None
        if not found.uuid:
            raise UnresolvedError(Unresolved.BAD_ALLOCATION, _device_message(result))
        return found


def _device(claim: str, result: Result, found: PublishedDevice) -> Device:
    if found.is_whole and not _takes_all(result, found.capacity):
        raise UnresolvedError(
            Unresolved.SHARED_DEVICE, DEVICE_SHARED.say(claim=claim, device=result.device, gpu=found.uuid)
        )
    return Device(uuid=found.uuid, mig="" if found.is_whole else result.device)


def _device_message(result: Result) -> Message:
    return DEVICE_WITHOUT_UUID.say(driver=result.driver, pool=result.pool, device=result.device)


def _takes_all(result: Result, capacity: Mapping[str, Quantity]) -> bool:
    """Returns whether a result takes the whole device, so that nothing of it is left for other claims."""
    consumed = result.consumed_capacity
    if consumed is None:
        return result.share_id is None
    return all(_same(consumed.get(name), amount) for name, amount in capacity.items())


def _same(consumed: Quantity | None, capacity: Quantity) -> bool:
    if consumed is None:
        return False
    try:
        return parse_quantity(consumed, source="consumed") == parse_quantity(capacity, source="capacity")
    except FormatError:
        return consumed == capacity

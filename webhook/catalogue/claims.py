"""Entries about GPUs that pods get by resource claims."""

from webhook.catalogue.entry import Entry

_PAGE = "dra.md"
_CLAIM_AGAIN = "Delete the pod, so that it gets its claims anew"
_SLICES = "Look at the ResourceSlices of the node, and whether its DRA driver runs"

PART_BY_CLASS = Entry(
    "GT260", "request {request} is for DeviceClass {device_class}, which gives parts of GPUs", page=_PAGE
)
PART_BY_CAPACITY = Entry(
    "GT261", "request {request} asks for a part of a GPU that several claims may share: {amounts}", page=_PAGE
)
PART_BY_SHARING = Entry("GT262", "the claim has its GPUs shared by {how}", page=_PAGE)
CLAIM_MISSING = Entry("GT263", "ResourceClaim {claim} does not exist", _CLAIM_AGAIN, _PAGE)
CLAIM_NOT_MADE = Entry(
    "GT259", "no ResourceClaim has been made for {entry} yet", "Look whether its ResourceClaimTemplate exists", _PAGE
)
CLAIM_NOT_ALLOCATED = Entry("GT264", "ResourceClaim {claim} is not allocated", _CLAIM_AGAIN, _PAGE)
CLAIM_NOT_RESERVED = Entry("GT265", "ResourceClaim {claim} is not reserved for the pod", _CLAIM_AGAIN, _PAGE)
CLAIM_OF_ANOTHER_POD = Entry("GT266", "ResourceClaim {claim} was made for another pod", _CLAIM_AGAIN, _PAGE)
DEVICE_SHARED = Entry(
    "GT267",
    "ResourceClaim {claim} has a part of {gpu} (device {device}): other claims may use the rest",
    "Ask for no capacity of the device, which gives all of it",
    _PAGE,
)
DEVICE_WITHOUT_UUID = Entry(
    "GT268", "device {device} of pool {pool} of driver {driver} is published without a UUID", _SLICES, _PAGE
)
POOL_NOT_PUBLISHED = Entry("GT269", "driver {driver} publishes no pool {pool}", _SLICES, _PAGE)
POOL_INCOMPLETE = Entry(
    "GT270",
    "of the newest generation of pool {pool} of driver {driver}, {found} of {expected} ResourceSlices are there",
    "Wait until the driver has published the pool, or look at its log",
    _PAGE,
)
DEVICE_NOT_PUBLISHED = Entry(
    "GT271",
    "pool {pool} of driver {driver} has no device {device}: it was published anew since the allocation",
    _CLAIM_AGAIN,
    _PAGE,
)
SHARED_DEVICE = Entry(
    "GT272",
    "a GPU of the pod is shared with others, so nothing is promised of it",
    "Claim whole GPUs: no capacity of the device, no time slices and no MPS",
    _PAGE,
)
TWO_WAYS = Entry(
    "GT273",
    "container {container} asks for GPUs by {resource} and by a resource claim",
    "Remove one of the two",
    _PAGE,
)
UNMET_BY_CLAIM = Entry(
    "GT257",
    "{unmet}, and the claim keeps these GPUs",
    "Delete the pod, and claim GPUs that fit with a template that gpu-topology claim writes; or require less",
    _PAGE,
)
CLAIM_IS_SHARED = Entry(
    "GT258",
    "{count} more of the pods that may use the claim use it now: the GPUs are not the pod's alone",
    "Use a ResourceClaimTemplate, which makes a claim for each pod, or the profile node-peers",
    _PAGE,
)
PART_OF_CLAIM = Entry("GT274", "container {container} gets parts of GPUs: {why}", "Claim whole GPUs", _PAGE)
TOO_MANY_CLAIMS = Entry(
    "GT275", "its containers use {found} resource claims, and at most {most} are read", "Use fewer claims", _PAGE
)

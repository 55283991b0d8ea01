"""GT2: GPUs that pods get by resource claims."""

from webhook.words.catalogue.entry import Entry

_PAGE = "claims.md"
_CLAIM_AGAIN = "Delete the pod, so that it gets its claims anew"
_SLICES = "Look at the ResourceSlices of the node, and whether its DRA driver runs"

PART_BY_CLASS = Entry(
    "GT260", "request {request} is for DeviceClass {device_class}, which gives parts of GPUs", page=_PAGE
)
PART_BY_CAPACITY = Entry(
    "GT261", "request {request} asks for a part of a GPU that several claims may share: {amounts}", page=_PAGE
)
PART_BY_SHARING = Entry(
    "GT262",
    "the claim has its GPUs shared by {how}",
    "Claim whole GPUs: leave the parameters for sharing out of the claim and of its DeviceClass",
    _PAGE,
)
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
DEVICE_PUBLISHED_TWICE = Entry(
    "GT277", "pool {pool} of driver {driver} publishes device {device} twice", _SLICES, _PAGE
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
CLAIM_IS_NO_PARTITION = Entry(
    "GT276",
    "the {count} GPUs of ResourceClaim {claim} are not exactly one partition of the NVSwitches, and NVIDIA's driver, "
    "which uses partitions here, prepares no other set: the pod will not start",
    "Delete the pod, and claim GPUs with a template that gpu-topology claim writes",
    "claims.md#partitions-of-nvswitches",
)
PART_OF_CLAIM = Entry("GT274", "container {container} gets parts of GPUs: {why}", "Claim whole GPUs", _PAGE)
TEMPLATE_ASKS = Entry(
    "GT290", "entry {entry} of spec.resourceClaims has no ResourceClaim yet; {template} asks for {asked}", page=_PAGE
)
CLAIM_WAITS = Entry(
    "GT291",
    "ResourceClaim {claim} is not allocated yet: the scheduler allocates it when it chooses a node. It asks for "
    "{asked}",
    page=_PAGE,
)
TEMPLATE_MISSING = Entry(
    "GT292",
    "{template} does not exist, so no ResourceClaim is made for entry {entry} of spec.resourceClaims",
    "Create the template in the namespace of the pod",
    _PAGE,
)
CLAIM_NOT_READ = Entry(
    "GT293",
    "{claim} could not be read: {problem}",
    "Have the permissions to get ResourceClaims and ResourceClaimTemplates; without a cluster, put the object into "
    "claims/ of the state directory, or beside the pod",
    _PAGE,
)
SLICES_NOT_READ = Entry(
    "GT294",
    "which GPUs the claims gave stands in ResourceSlices, which could not be read: {problem}",
    "Have the permission to list ResourceSlices",
    _PAGE,
)
SEE_RESOURCE_CLAIMS = Entry(
    "GT295", "which GPUs the resource claims gave is not known: see resource-claims", page=_PAGE
)
COUNT_AWAITS_CLAIM = Entry(
    "GT296",
    "on a node without a device plugin for {resource} a resource claim serves it, which the scheduler makes when it "
    "chooses the node",
    page=_PAGE,
)
CLAIMS_GIVEN_BACK = Entry(
    "GT297", "the pod has ended, and what its claims gave it is not known any more: {problem}", page=_PAGE
)
BINDINGS_OF_CLAIMS_PASS_BY = Entry(
    "GT298",
    "the API server does not ask the webhook about Bindings by {accounts}, who binds pods with resource claims: the "
    "pod keeps the values of admission",
    "Set claims.enabled in the chart of the webhook, and name the scheduler in claims.schedulers. Create the pod again "
    "after that",
    _PAGE,
)
CLAIM_WITHOUT_PEERS = Entry("GT299", "no other pod uses {claims} now", page=_PAGE)

PARTS_OF_CLAIM = Entry(
    "GT280",
    "the pod claims parts of GPUs and not whole ones",
    "Claim whole GPUs if the pod needs NVLink: of a DeviceClass of whole GPUs, unshared and without capacity",
    _PAGE,
)
CLAIMS_NOT_READ = Entry(
    "GT281",
    "the pod gets devices by resource claims, which could not be read; it is left as it is",
    "Create the ResourceClaims and ResourceClaimTemplates before the pod, or ask for injection on the pod",
    _PAGE,
)
PRELOADED_LEFT_ALONE = Entry(
    "GT282",
    "HAMi's DRA driver, which preloads HAMi's library, serves the pod; it is left as it is",
    "Claim GPUs of another DeviceClass if the pod needs NVLink",
    _PAGE,
)
PEERS_PRELOADED = Entry(
    "GT283",
    "profile {profile} cannot keep HAMi's library out of pod {pod}: HAMi's DRA driver preloads it into every "
    "container, and CUDA IPC does not work with it",
    'Use GPUs of another DeviceClass, or set gpu.topology/inject: "false" on the pod',
    _PAGE,
)
PEERS_WITH_TWO_CLAIMS = Entry(
    "GT284",
    "containers {first} and {second} use different claims, so they cannot see each other's GPUs as profile {profile} "
    "needs it",
    "Let both refer to the same entries of spec.resourceClaims, with the same requests",
    _PAGE,
)
PEERS_BY_COUNT = Entry(
    "GT285",
    "container {container} asks for {resource}: each container gets GPUs of its own by that, so profile {profile} "
    "cannot join them",
    "Name a ResourceClaim in spec.resourceClaims, and let the containers refer to it",
    _PAGE,
)
NODE_PEERS_BY_TEMPLATE = Entry(
    "GT286",
    "container {container} uses claim {entry}, which is made for this pod alone: with profile {profile} pods share "
    "a ResourceClaim",
    "Create one ResourceClaim, and name it in resourceClaimName of all these pods",
    _PAGE,
)
CLAIM_MAY_BE_SHARED = Entry(
    "GT287",
    "other pods may use ResourceClaim {claim} too, and then have the same GPUs",
    "Use a ResourceClaimTemplate, which makes a claim for each pod, or the profile node-peers",
    _PAGE,
)
PERHAPS_OF_HAMI = Entry(
    "GT288",
    "nodes with HAMi's device plugin serve {resource} without a claim: other pods may get these cards too",
    "An administrator sets cluster.extendedResources to hami or claims if one of them serves all nodes",
    _PAGE,
)
TOO_MANY_CLAIMS = Entry(
    "GT275", "its containers use {found} resource claims, and at most {most} are read", "Use fewer claims", _PAGE
)

"""GT2: whole cards, and the effects of the versions of HAMi on a pod."""

from webhook.words.catalogue.entry import Entry

_EXPLAIN, _COMPATIBILITY, _CONTROL = "explain.md#the-conditions", "compatibility.md#hami", "injection.md"
_ALONE = "without-webhook.md"
_UPGRADE = "compatibility.md#upgrading-hami-or-kubernetes"
_REFIT = "compatibility.md#numa-refit"
_REMOVE_LIST = "Remove the variable: the device plugin shows the container its own GPUs and no others"
_SAY_VERSION = "Say which HAMi runs: --hami-version"
_WITHOUT_PRIVILEGES = (
    "Run the container without privileges; if it has to reach the GPUs of other pods, set gpu.topology/profile: "
    "node-peers and a gpu.topology/group in place of privileges"
)
_DISABLE = (
    'Let the webhook do it, or write CUDA_DISABLE_CONTROL: "true" as a literal into every container, init containers '
    "too; setting it inside a running container changes nothing"
)

MIG_REQUEST = Entry(
    "GT201",
    "the pod asks for MIG devices, which have no NVLink",
    "Ask for whole GPUs if the pod needs NVLink",
    _EXPLAIN,
)
MIG_LEFT_ALONE = Entry(
    "GT202",
    "MIG devices have no NVLink; the pod is left as it is",
    "Ask for whole GPUs if the pod needs NVLink",
    _EXPLAIN,
)
BAD_RESOURCE = Entry(
    "GT203",
    "a GPU resource cannot be read, or containers ask for GPUs of two device plugins",
    "Write a whole number; use the resource names of one device plugin in one pod",
    "configuration.md#resources",
)
TWO_FAMILIES = Entry(
    "GT204",
    "container {first} asks for GPUs of {first_family}, container {second} for GPUs of {second_family}: no scheduler "
    "gives a pod both",
    "Use the resource names of one of them",
    "configuration.md#resources",
)
MIXED_CARDS = Entry(
    "GT205",
    "whole cards and a vGPU slice cannot be kept apart in this pod",
    "Put the container with the slice into a pod of its own, or leave gpu.topology/containers out. HAMi 2.9 and fixed "
    "2.10 releases can keep them apart in profile exclusive, if the webhook knows the version",
    _COMPATIBILITY,
)
SLICE_WITH_PEERS = Entry(
    "GT206",
    "annotation gpu.topology/containers leaves container {container} its vGPU slice, but profile {profile} would show "
    "its card to the others",
    "Put it into a pod of its own",
    _COMPATIBILITY,
)
SLICE_LOSES_LIMITS = Entry(
    "GT207",
    "annotation gpu.topology/containers leaves container {container} its vGPU slice, but HAMi {hami} may lift its "
    "limits with the others'",
    "Put it into a pod of its own",
    _COMPATIBILITY,
)
SLICE = Entry(
    "GT208",
    "container {container} asks for a part of each card: {parts}",
    'Ask for {resource} alone, or set gpu.topology/inject: "true" on the pod',
    _EXPLAIN,
)
UNRECOGNIZED_RESOURCE = Entry(
    "GT209",
    "container {container} requests {resource}, which `resources` of the configuration does not name: whether it is "
    "for GPUs is not known",
    "If the resource is for GPUs, name it as the count of a device plugin in `resources` of the configuration",
    "configuration.md#resources",
)
GPUS_WITHOUT_REQUEST = Entry(
    "GT216",
    "container {container} requests no GPU and sets NVIDIA_VISIBLE_DEVICES to {value}: where the container runtime "
    "takes the list, the container uses GPUs that no scheduler gave it",
    "Request the GPUs and remove the variable. If the container only watches GPUs, nothing is to be done",
    "configuration.md#resources",
)
LIBRARY_PRELOADED = Entry(
    "GT210",
    "HAMi's library is preloaded into container {container}: {reader} looks {where}, {found}",
    _DISABLE,
    _ALONE,
)
LIBRARY_PERHAPS_PRELOADED = Entry(
    "GT211", "it depends on HAMi's version, which is not known here: {versions}", _DISABLE, _ALONE
)
LIBRARY_UNLESS_PLUGIN_SAYS = Entry(
    "GT215",
    "unless Volcano's device plugin itself has CUDA_DISABLE_CONTROL_DP, {preloaded}",
    _DISABLE,
    _CONTROL,
)
SLICE_KEEPS_LIBRARY = Entry(
    "GT212", LIBRARY_PRELOADED.text, "Ask for whole GPUs first: without HAMi's library a slice has no limits", _CONTROL
)
CONTROL_NOT_DISABLED = Entry(
    "GT213",
    "container {container} sets CUDA_DISABLE_CONTROL itself, but whole cards need the literal true",
    "Remove the variable, or opt out of injection",
    _CONTROL,
)
LIST_SHOWS_NOTHING = Entry(
    "GT220",
    "container {container} sets NVIDIA_VISIBLE_DEVICES itself, which overrules the device plugin: {value} shows no GPU",
    _REMOVE_LIST,
    _EXPLAIN,
)
LIST_UNKNOWN = Entry(
    "GT221",
    "container {container} sets NVIDIA_VISIBLE_DEVICES itself, which overrules the device plugin: whether it shows the "
    "allocated GPUs is not known",
    _REMOVE_LIST,
    _EXPLAIN,
)
NUMBERS_FROM_ELSEWHERE = Entry(
    "GT222",
    "container {container} sets CUDA_VISIBLE_DEVICES from elsewhere: what it says is not known",
    _REMOVE_LIST,
    _EXPLAIN,
)
# HAMi-core src/utils.c reads each entry with atoi.
NUMBERS_UNREADABLE_BY_LIBRARY = Entry(
    "GT223",
    "container {container} sets CUDA_VISIBLE_DEVICES to {value}: HAMi's library takes every UUID for GPU 0",
    _REMOVE_LIST,
    _EXPLAIN,
)
NUMBERS_OF_UNKNOWN_GPUS = Entry(
    "GT224",
    "container {container} sets CUDA_VISIBLE_DEVICES to {value}: whether those are its GPUs shows when they are "
    "allocated",
    _REMOVE_LIST,
    _EXPLAIN,
)
NUMBERS_HIDE_GPUS = Entry(
    "GT225", "container {container} sets CUDA_VISIBLE_DEVICES to {value}: {uses}", _REMOVE_LIST, _EXPLAIN
)
NUMBERS_HIDE_GIVEN = Entry(
    "GT228",
    "container {container}: CUDA_VISIBLE_DEVICES shows CUDA {used} of its {count} GPUs",
    "Remove the variable",
    _EXPLAIN,
)
LIST_REPLACES_GIVEN = Entry(
    "GT229",
    "container {container} sets NVIDIA_VISIBLE_DEVICES and so sees those GPUs, not the ones that it is given",
    "Remove the variable",
    _EXPLAIN,
)
LIST_SHOWS_OTHERS = Entry(
    "GT214",
    "container {container} sets NVIDIA_VISIBLE_DEVICES to {value}, which overrules the device plugin: it sees {shown}, "
    "and was given {given}",
    _REMOVE_LIST,
    _EXPLAIN,
)
KAI_MAY_REFUSE = Entry(
    "GT278",
    "KAI refuses this pod if it blocks NVIDIA_VISIBLE_DEVICES, which containers of the pod get",
    "Set global.blockNvidiaVisibleDevices of KAI's chart to false, or have HAMi's scheduler place the pod",
    "compatibility.md",
)
PRIVILEGED_SEES_ALL = Entry(
    "GT226",
    "container {container} is privileged: it sees every GPU of its node, whatever it is given",
    _WITHOUT_PRIVILEGES,
    _EXPLAIN,
)
PRIVILEGED_USES_ALL = Entry(
    "GT227",
    "{containers}: privileged, so every GPU of the node is visible there, not only {whose}",
    _WITHOUT_PRIVILEGES,
    _EXPLAIN,
)
INIT_CONTAINER_FAULT = Entry(
    "GT230",
    "HAMi 2.10.0 will offer this pod's cards to others once its init containers finish",
    "Upgrade HAMi. Until then: give the pod no init container without a GPU, and leave gpu.topology/remap at auto",
    _COMPATIBILITY,
)
CARDS_OFFERED_TO_OTHERS = Entry(
    "GT231",
    "HAMi {hami} offers this pod's cards to others once init container {container} finishes",
    "Upgrade HAMi, or give the pod no init container without a GPU",
    _COMPATIBILITY,
)
IDLE_INIT_CONTAINER = Entry(
    "GT232",
    "init container {containers} asks for no GPU and ends: HAMi {hami} then offers the pod's cards to others",
    "Upgrade HAMi, or give the pod no such init container",
    _COMPATIBILITY,
)
IDLE_REMAP_CONTAINER = Entry(
    "GT233",
    IDLE_INIT_CONTAINER.text,
    "Tell the webhook HAMi's version (cluster.hamiVersion in its configuration) and create the pod again: "
    "gpu-topology-remap is then a sidecar, which does not end{others}",
    _COMPATIBILITY,
)
IDLE_INIT_CONTAINER_PERHAPS = Entry(
    "GT234",
    "init container {containers} asks for no GPU and ends; HAMi 2.10.0 would then offer the pod's cards to others",
    _SAY_VERSION,
    _COMPATIBILITY,
)
PRIVILEGED_REFUSED = Entry(
    "GT235",
    "HAMi {hami} refuses GPU pods with a privileged container: {container}",
    _WITHOUT_PRIVILEGES,
    _COMPATIBILITY,
)
PRIVILEGED_DENIED = Entry(
    "GT236",
    "{containers}: privileged, which HAMi {hami} refuses in pods with GPUs",
    _WITHOUT_PRIVILEGES,
    _COMPATIBILITY,
)
PRIVILEGED_PERHAPS_DENIED = Entry(
    "GT237",
    "{containers}: privileged, which HAMi 2.10 and later refuse in pods with GPUs",
    _SAY_VERSION,
    _COMPATIBILITY,
)
INIT_GPUS_NOT_SCHEDULED = Entry(
    "GT238",
    "HAMi {hami} does not schedule GPUs for init containers: {container}",
    "Upgrade HAMi, or ask for the GPUs in another container",
    _COMPATIBILITY,
)
INIT_GPUS_PERHAPS_NOT_SCHEDULED = Entry(
    "GT239", "{containers}: HAMi before 2.9 does not schedule its GPUs", _SAY_VERSION, _COMPATIBILITY
)
NO_PAIR_SCORES = Entry(
    "GT240",
    "topology-aware: HAMi before 2.10 gives the pod no GPUs on nodes without pair scores",
    "Remove the annotation hami.io/gpu-scheduler-policy, or upgrade HAMi",
    _COMPATIBILITY,
)
EIGHT_IN_ONE_NUMA_NODE = Entry(
    "GT241",
    "policy single-numa: eight GPUs do not fit into one NUMA node of a two-socket machine",
    "Ask for fewer GPUs in one container, or use another policy",
    "annotations.md",
)
INIT_GPUS_OF_HAMI = Entry(
    "GT242",
    "{containers}: HAMi {hami} does not schedule its GPUs",
    "Upgrade HAMi, or ask for the GPUs in another container",
    _COMPATIBILITY,
)
REFIT_WITH_LIST = Entry(
    "GT245",
    "hami.io/numa-alignment: strict with nvidia.com/use-gpuuuid: HAMi fails the pod where the kubelet offers others",
    "Remove hami.io/numa-alignment",
    _REFIT,
)
WOULD_LOSE_CARDS = Entry(
    "GT246",
    "HAMi {hami} would count {counted} of the {gpus} of this running pod: it would take the rest for GPUs of init "
    "container {taken}, which has ended, and offer them to other pods",
    "Delete the pod before the upgrade to HAMi {hami}, and create it again after it",
    _UPGRADE,
)
LOSES_CARDS = Entry(
    "GT247",
    "HAMi {hami} counts {counted} of the {gpus} of this running pod: it takes the rest for GPUs of init container "
    "{taken}, which has ended, and offers them to other pods",
    "Create the pod again. With HAMi 2.10.0 only a restartable init container keeps its cards: leave "
    "gpu.topology/remap at auto, and set cluster.hamiVersion where the version is not detected",
    _UPGRADE,
)
REMAP_NOT_FIRST = Entry(
    "GT248",
    "init container {taken} stands ahead of the sidecar {remap}: HAMi after 2.10 may take the pod's GPUs for those of "
    "{taken}, and offer them to other pods while the pod runs",
    "Before HAMi is upgraded, create the pod again with the sidecar first: the webhook has to be asked again after the "
    "one that adds {taken} (reinvocationPolicy: IfNeeded)",
    _UPGRADE,
)
REFIT_AFTER_BINDING = Entry(
    "GT249",
    "hami.io/numa-alignment: {alignment}: HAMi may change the GPUs after the Binding; the pod is told the first ones",
    "Remove the annotation; gpu.topology/policy: single-numa asks for GPUs of one NUMA node before the Binding",
    _REFIT,
)
OTHER_SCHEDULER = Entry(
    "GT250",
    "spec.schedulerName is {scheduler}: HAMi 2.7 and later leave such a pod alone",
    "Remove the field, or set cluster.hamiSchedulerName if HAMi's scheduler has that name",
    "injection.md#pods-that-hami-leaves-alone",
)
HAMI_WEBHOOK_IGNORED = Entry(
    "GT251",
    "HAMi's webhook and scheduler do not get the pod: label hami.io/webhook: ignore on {holder}",
    "Remove the label, or set spec.schedulerName to HAMi's scheduler",
    "injection.md#pods-that-hami-leaves-alone",
)
NODE_PRESET = Entry(
    "GT252",
    "spec.nodeName is {node}: no scheduler gives the pod GPUs, and HAMi's webhook refuses it",
    "Remove the field, and select the node with spec.nodeSelector",
    "injection.md#pods-that-hami-leaves-alone",
)
KATA_RUNTIME_CLASS = Entry(
    "GT253",
    "HAMi gives no GPU to virtual machines, and by its name runtime class {name} is one of Kata's",
    "Use another runtime class",
    "injection.md#pods-that-hami-leaves-alone",
)
NOT_TAKEN_BY_HAMI = Entry(
    "GT254",
    "the pod exists with the scheduler {scheduler}: HAMi's webhook did not take it",
    "Look whether HAMi's webhook was running and treats the namespace, and create the pod again",
    "injection.md#pods-that-hami-leaves-alone",
)
HAMI_DRA_DRIVER = Entry(
    "GT255",
    "HAMi's DRA driver serves the pod, which preloads HAMi's library whatever the pod says",
    "Choose GPUs of another DeviceClass, or opt the pod out",
    "claims.md",
)
PRELOADED_BY_DRA = Entry(
    "GT256",
    "profile exclusive cannot keep HAMi's library out of pod {pod}: HAMi's DRA driver preloads it into every "
    "container, whatever CUDA_DISABLE_CONTROL says",
    'Use GPUs of another DeviceClass, or set gpu.topology/inject: "false" on the pod. An administrator sets '
    "cluster.extendedResources: hami if HAMi's device plugin serves the GPUs after all",
    "claims.md",
)

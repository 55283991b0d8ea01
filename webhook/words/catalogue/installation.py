"""GT8: features that the installation, or the versions of the cluster, do not allow."""

from webhook.words.catalogue.entry import Entry

_REMAP, _CONFIGURATION = "injection.md#3-the-remap-container", "configuration.md#remap"
_NRI = "compatibility.md#the-gpu-operators-nri-plugin"
_SCHEDULERS = "troubleshooting.md#bindings-of-a-scheduler-do-not-reach-the-webhook"

NO_TOPOLOGY_FILE = Entry(
    "GT801",
    "the remap carrier of this cluster cannot write a topology file",
    "Remove gpu.topology/topology-file from the pod, or tell the webhook the versions of HAMi and Kubernetes (cluster "
    "in the configuration)",
    _REMAP,
)
NO_REMAP_CONTAINER = Entry(
    "GT802",
    "no topology file: this HAMi and Kubernetes allow no remap container",
    "Remove gpu.topology/topology-file from the pod, or tell the webhook the versions of HAMi and Kubernetes",
    _REMAP,
)
MOUNT_PATH_TAKEN = Entry(
    "GT803",
    "the pod mounts something where our files have to be",
    'Mount it elsewhere than /run/gpu-topology, or set gpu.topology/remap: "binding"',
    _REMAP,
)
MOUNTS_OVER_FILES = Entry(
    "GT804",
    "container {container} mounts volume {volume} at /run/gpu-topology, where the topology file has to be",
    'Mount it elsewhere, or set gpu.topology/remap: "binding"',
    _REMAP,
)
CARRIER_UNAVAILABLE = Entry(
    "GT805",
    "the remap carrier that the pod asks for does not work on this cluster",
    "Set gpu.topology/remap to auto: sidecar needs Kubernetes 1.29 or later",
    _REMAP,
)
NO_SIDECARS = Entry(
    "GT806",
    "gpu.topology/remap: sidecar needs Kubernetes 1.29 or later, this is {kubernetes}",
    "Use auto",
    _REMAP,
)
REMAP_CONTAINER_WITH_GPU = Entry(
    "GT807",
    "init container {container} is the remap container, which asks for no GPU, but it has a GPU request",
    "Remove the container from the pod: admission adds its own",
    _REMAP,
)
ENV_FILE_WITHOUT_REMAP = Entry(
    "GT810",
    "remap.environment: file needs a remap container, which this pod does not get",
    "Set remap.environment to annotations, or leave gpu.topology/remap at auto",
    _CONFIGURATION,
)
ENV_FILE_NEEDS_KUBERNETES = Entry(
    "GT811",
    "remap.environment: file needs Kubernetes 1.35, this is {kubernetes}",
    "Set remap.environment to annotations",
    _CONFIGURATION,
)
ENV_FILE_NEEDS_LABEL = Entry(
    "GT812",
    "remap.environment: file changes nothing: the namespace is not labelled gpu.topology/allow-node-gpus",
    "Set remap.environment to annotations, or have an administrator set the label",
    _CONFIGURATION,
)
ENV_FILE_BESIDE_ANNOTATIONS = Entry(
    "GT813",
    "remap.environment: file changes nothing in pods that read the annotations already",
    "Create the pod from a manifest without what the webhook added",
    _CONFIGURATION,
)
NCCL_FILE_WITHOUT_REMAP = Entry(
    "GT814",
    "no remap container, so not set: {variables}",
    "Leave gpu.topology/remap at auto, or put the variables into all three tables of nccl in the configuration",
    "nccl.md#class-dependent-settings",
)
RUNTIME_CLASS_LEFT_OUT = Entry(
    "GT815",
    "RuntimeClass {name} (remap.runtimeClassName) does not exist, so the pod does not get it",
    "Remove remap.runtimeClassName where the GPU Operator's NRI plugin serves the nodes; otherwise create the "
    "RuntimeClass",
    _NRI,
)
RUNTIME_CLASS_OF_POD_MISSING = Entry(
    "GT816",
    "RuntimeClass {name}, which the pod names, does not exist: the kubelet starts none of its containers, and the API "
    "server refuses further pods that name it",
    "Remove runtimeClassName from the template of the pod where the GPU Operator's NRI plugin serves the nodes; "
    "otherwise create the RuntimeClass",
    _NRI,
)
SCHEDULER_PASSES_BY = Entry(
    "GT820",
    "the API server does not ask the webhook about Bindings by {accounts}: pods of HAMi's scheduler keep the values of "
    "admission, and those of the peer profiles stop at their start",
    "Add to admission.bindings.schedulers of the webhook's chart: {schedulers}. Create the pod again after that",
    _SCHEDULERS,
)
SCHEDULER_MAY_PASS_BY = Entry(
    "GT821",
    "the API server does not ask the webhook about Bindings by {accounts}, but about those by {others}: which of them "
    "schedules this pod is not known",
    "Add to admission.bindings.schedulers of the webhook's chart: {schedulers}",
    _SCHEDULERS,
)
SCHEDULER_CONDITION_UNREAD = Entry(
    "GT822",
    "whether the API server asks the webhook about Bindings by {accounts} is decided by a match condition that does "
    "not only list names",
    "Read the match conditions: kubectl get mutatingwebhookconfiguration {configuration} -o yaml",
    _SCHEDULERS,
)
BINDINGS_NOT_REGISTERED = Entry(
    "GT823",
    "there is no MutatingWebhookConfiguration {configuration}, so whose Bindings reach the webhook is not known",
    "See whether the webhook is installed; if it is registered by another name, give its configuration with --config",
    _SCHEDULERS,
)
SCHEDULERS_NOT_FOUND = Entry(
    "GT824",
    "no Deployment has the label of HAMi's scheduler, so who schedules this pod is not known",
    "See that admission.bindings.schedulers of the webhook's chart names the account of your scheduler",
    _SCHEDULERS,
)
REGISTRATION_NOT_READ = Entry(
    "GT825",
    "whether Bindings of the pod's scheduler reach the webhook is not known: {problem}",
    "Have the permissions to list Deployments and to get MutatingWebhookConfigurations",
    _SCHEDULERS,
)

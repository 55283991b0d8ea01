"""GT1: the pods and Bindings that the webhook looks at, and the options of these pods."""

from webhook.words.catalogue.entry import Entry

_INJECTION, _INJECT = "gpu.topology/injection", "gpu.topology/inject"
_AGAIN = "create the pod again: the containers of a pod cannot be changed"
_UNPREPARED = (
    "no container of whole GPUs has CUDA_DISABLE_CONTROL as a true literal, NCCL_P2P_LEVEL and NCCL_NVLS_ENABLE: the "
    "webhook did not prepare the pod{mark}"
)
_NAMESPACES, _ANNOTATIONS, _BINDING = (
    "annotations.md#opting-a-namespace-in",
    "annotations.md",
    "injection.md#6-which-bindings",
)

NOT_A_CREATE = Entry(
    "GT101",
    "the webhook decides only about the creation of pods",
    "Register the webhook for CREATE only; other operations cost a call for nothing",
    "install.md",
)
NAMESPACE_UNKNOWN = Entry(
    "GT102",
    "the webhook does not know the namespace, so it cannot decide about the pod",
    "With a state directory, add the namespace, restart the webhook and create the pod again. On a cluster it does not "
    "happen: an unknown namespace is looked up first",
    "operations.md#namespaces-of-a-moment-ago",
)
NAMESPACE_NOT_ENABLED = Entry(
    "GT103",
    "the namespace has not opted in",
    f"An administrator sets the label {_INJECTION}: enabled on the namespace",
    _NAMESPACES,
)
MIRROR_POD = Entry(
    "GT104",
    "the pod is the mirror of a static pod, which the kubelet runs as its file says",
    "Change the file of the static pod with gpu-topology inject, if it needs NVLink",
    "injection.md#1-which-pods",
)
OPTED_OUT = Entry(
    "GT105",
    "the pod has opted out",
    f'Remove the label {_INJECTION}: disabled or the annotation {_INJECT}: "false" if the pod needs NVLink',
    _ANNOTATIONS,
)
NO_GPU_REQUEST = Entry(
    "GT106",
    "no container asks for a GPU",
    "If one should: compare its resources with the names in the section resources of the configuration",
    "configuration.md",
)
VGPU_SLICE = Entry(
    "GT107",
    "the pod asks for a vGPU slice and not for whole cards",
    f'Set {_INJECT}: "true" on the pod if it needs NVLink; it then gets, and is accounted for, whole cards',
    _ANNOTATIONS,
)
NOT_REQUESTED = Entry(
    "GT108",
    "the pod did not request injection, and no default enables it",
    f'Set {_INJECT}: "true" on the pod',
    _ANNOTATIONS,
)
NO_CONTAINER_SELECTED = Entry(
    "GT109",
    "none of the containers that gpu.topology/containers names asks for a GPU",
    "Correct gpu.topology/containers on the namespace or in the defaults of the configuration, or set it on the pod",
    _ANNOTATIONS,
)
INJECTED = Entry("GT110", "the webhook prepared the pod for NVLink", page="injection.md")
ALREADY_INJECTED = Entry("GT111", "the pod has everything that the webhook would add", page="injection.md")
OBSERVED = Entry(
    "GT112",
    "the webhook only observes the pod; the warnings say what the profile would do",
    "Read the warnings, and set another profile when they say what you want",
    _NAMESPACES,
)
WOULD_DO = Entry("GT113", "observe: profile {profile} would {purpose}", page=_NAMESPACES)
WOULD_REFUSE = Entry("GT114", "observe: profile {profile} would refuse it: {refusal}", page=_NAMESPACES)
OUTPUTS_REMOVED = Entry(
    "GT115",
    "{count} annotations that only the webhook writes were removed",
    "Do not set annotations that the webhook writes",
    "annotations.md#what-the-programs-write",
)
BAD_ANNOTATION = Entry(
    "GT116",
    "an annotation has a value that cannot be read",
    "Correct the value; the message says where it stands, what was expected and what was found",
    _ANNOTATIONS,
)
UNKNOWN_ANNOTATION = Entry(
    "GT117", "unknown annotation {key}", "Correct the name of the annotation, or remove it", _ANNOTATIONS
)
PERHAPS_MEANT = Entry(
    "GT118", "unknown annotation {key}; did you mean {meant}?", "Correct the name of the annotation", _ANNOTATIONS
)
MORE_UNKNOWN_ANNOTATIONS = Entry(
    "GT119", "{count} more unknown annotations", "Correct their names, or remove them", _ANNOTATIONS
)
VALUE_UNKNOWN_TO_HAMI = Entry(
    "GT171",
    "{key}: HAMi does not know {value}; {guess}",
    "Correct the value of the annotation: {values}",
    "annotations.md#in-the-wrong-place-or-spelling",
)
UNKNOWN_OUTPUT = Entry(
    "GT120",
    "a variable takes its value from an annotation that the webhook will not write",
    "Remove the variable and the annotation that the message names, or put the variable back into the tables of nccl "
    "in the configuration",
    "annotations.md#what-the-programs-write",
)
READS_UNKNOWN_OUTPUT = Entry(
    "GT121",
    "a variable takes its value from annotation {key}, which only the webhook writes, and which it does not write with "
    "its present configuration",
    "Remove the variable and the annotation",
    "annotations.md#what-the-programs-write",
)
UNKNOWN_CONTAINER = Entry(
    "GT122",
    "the pod names a container that asks for no GPU, or that it does not have",
    "Correct gpu.topology/containers; the message lists the containers that ask for GPUs",
    _ANNOTATIONS,
)
MISSING_PERMISSION = Entry(
    "GT123",
    "the pod needs something that its namespace is not allowed",
    "An administrator sets the labels that the message names; or choose a profile that needs none; or remove an own "
    "NVIDIA_VISIBLE_DEVICES",
    _NAMESPACES,
)
NOT_ALLOWED = Entry(
    "GT124",
    "pod {pod}: {needs}. Namespace {namespace} is not allowed that",
    "An administrator can set its labels {labels}",
    _NAMESPACES,
)
OVER_LIMIT = Entry(
    "GT125",
    "the pod has, or would get, more of something than the configuration allows",
    "Use less of what the message names: fewer containers, gpu.topology/env.* annotations or variables. An "
    "administrator can raise the limit",
    "configuration.md#limits",
)
MORE_WARNINGS = Entry("GT126", "{count} more warnings", page="troubleshooting.md#reasons")
POD_OVER_LIMIT = Entry(
    "GT142",
    "{problem}",
    "Use less of it, or have an administrator raise the limit",
    "configuration.md#limits",
    example=(
        "pod team-a/train: expected at most 1048576 bytes of the answer to a review (limits.replyBytes), found 1310720"
    ),
)
NAMESPACE_NOT_KNOWN_YET = Entry(
    "GT127",
    "namespace {namespace} is not known yet; the pod is left as it is",
    "Create the pod again when the namespace is known",
    "operations.md#namespaces-of-a-moment-ago",
)
ASKS_WITHOUT_GPU = Entry(
    "GT128",
    "the pod asks for injection, but no container asks for a GPU",
    "Compare the resources of its containers with the names in the section resources of the configuration",
    "configuration.md#resources",
)
NO_SUCH_CONTAINER = Entry(
    "GT129",
    "annotation gpu.topology/containers on pod {pod}: expected names of containers that ask for GPUs ({asking}), "
    "found {unknown}",
    "Correct the annotation",
    _ANNOTATIONS,
)

NOT_A_BINDING = Entry(
    "GT130",
    "the webhook decides only about the creation of Bindings of pods to nodes",
    "Register the webhook for CREATE of pods/binding only",
    "install.md",
)
NOT_INJECTED = Entry(
    "GT131",
    "the webhook did not prepare the pod",
    "If it should have: the reason of the pod's admission says why it did not",
    _BINDING,
)
POD_GONE = Entry("GT132", "the pod does not exist any more", page=_BINDING)
POD_RECREATED = Entry("GT133", "the pod is not the one that the scheduler means", page=_BINDING)
ALREADY_BOUND = Entry("GT134", "the pod has a node already", page=_BINDING)
BINDING_NOT_ENABLED = Entry("GT135", "the namespace has not opted in, so its Bindings are left alone", page=_BINDING)
BINDING_OBSERVED = Entry(
    "GT136",
    "the pod is only observed",
    "Read the log and the metrics: they say what its GPUs are worth",
    _NAMESPACES,
)
POD_NOT_NAMED = Entry(
    "GT137",
    "the Binding does not name its pod by metadata.uid, so nothing is said about the pod's GPUs",
    "Let the scheduler set metadata.uid of the Binding, as kube-scheduler, HAMi, Volcano and Koordinator do, and "
    "create it as pods/binding: the API server removes the uid from the legacy resource bindings",
    "injection.md#6-which-bindings",
)
BINDING_NAMESPACE_UNKNOWN = Entry(
    "GT138",
    "the webhook does not know the namespace, so it does not know what the namespace requires of its pods",
    "With a state directory, add the namespace and restart the webhook; the scheduler tries again by itself",
    "operations.md#namespaces-of-a-moment-ago",
)
POD_UNREADABLE = Entry(
    "GT139",
    "the API server could not be asked for the pod",
    "The scheduler tries again. If it lasts: the webhook may need the right to read pods, or binding.readSeconds is "
    "too short",
    "troubleshooting.md#pods-cannot-be-read",
)
BAD_POD = Entry(
    "GT140",
    "the pod has an option that cannot be read",
    "The annotations of the pod or of its namespace were changed after the pod was admitted: correct the value that "
    "the message names",
    _ANNOTATIONS,
)
BINDING_NAMESPACE_NOT_KNOWN_YET = Entry(
    "GT141",
    "namespace {namespace} is not known yet, so what it requires of its pods is not known either",
    "Wait: the scheduler tries again",
    "operations.md#namespaces-of-a-moment-ago",
)

BAD_POD_OPTION = Entry(
    "GT143",
    "{problem}",
    "The annotations of the pod or of its namespace were changed after the pod was admitted: correct the value",
    _ANNOTATIONS,
    example=(
        'annotation gpu.topology/min-bandwidth on pod team-a/train: expected a number of GB/s such as "100", '
        'found "fast"'
    ),
)
BAD_REQUEST = Entry("GT150", "a request cannot be read: {problem}", "Write a whole number", _ANNOTATIONS)
BAD_OPTION = Entry("GT151", "an option cannot be read: {problem}", "Correct the annotation", _ANNOTATIONS)
NAMESPACE_NOT_READ = Entry(
    "GT152",
    "the namespace is not known here",
    "Explain the pod in its cluster, without -f, or give a state directory with its namespace: --state",
    "explain.md",
)
NAMESPACE_NOT_PERMITTED = Entry(
    "GT153", "the namespace is not known here: {why}", "Have the permission to get namespaces", "explain.md"
)
ONLY_WATCHED = Entry(
    "GT154",
    "profile observe, from {source}: the webhook only watches the pod{mark}",
    f"Set another profile in {{source}} and {_AGAIN}",
    _NAMESPACES,
)
UNREADABLE_NEVER_PREPARED = Entry(
    "GT144",
    "a pod whose requests cannot be read is never prepared{mark}",
    f"See to opted-in, and {_AGAIN}",
    "injection.md",
)
NOT_PREPARED_SEE_OPTING = Entry("GT155", _UNPREPARED, f"See to opted-in, and {_AGAIN}", "injection.md")
NOT_PREPARED_NAMESPACE_UNKNOWN = Entry(
    "GT156",
    _UNPREPARED,
    "If the webhook is installed, look whether it is registered and was running and whether the namespace has opted "
    f"in, and {_AGAIN}",
    "troubleshooting.md",
)
NOT_PREPARED = Entry(
    "GT157",
    _UNPREPARED,
    f"Look whether the webhook is registered and was running, and {_AGAIN}",
    "troubleshooting.md",
)
WOULD_BE_REFUSED = Entry(
    "GT158",
    "the webhook would refuse the pod: {refusal}",
    "Correct what the message names",
    "troubleshooting.md#reasons",
)
NO_LONGER_PREPARED = Entry(
    "GT159",
    "{lacking}",
    f"Find out who changed it, and {_AGAIN}",
    "injection.md",
    example="container main lacks CUDA_DISABLE_CONTROL",
)
CLAIMS_LEFT_ALONE = Entry(
    "GT161",
    "the pod gets devices by resource claims, which are not looked at; it is left as it is",
    "An administrator sets claims.enabled; or ask for GPUs by the count of a device plugin",
    "claims.md",
)
SERVED_BY_CLAIMS = Entry(
    "GT162",
    "resource claims serve the GPUs that the pod asks for, so the webhook cannot learn which ones they are",
    "An administrator sets claims.enabled, if the pod needs values that follow from its links; or "
    "cluster.extendedResources: hami, if HAMi serves the GPUs after all",
    "claims.md",
)
COUNT_SERVED_BY_CLAIMS = Entry(
    "GT163",
    "resource claims serve {resource} here: which GPUs the pod gets, and their links, will not be known",
    "An administrator sets claims.enabled; or cluster.extendedResources: hami where HAMi serves it after all",
    "claims.md",
)
CLAIMED_DEVICES = Entry(
    "GT164",
    "the pod gets devices by {claims}; which ones, and how they are linked, is not known here: the configuration has "
    "no claims looked at",
    "Set claims.enabled in the configuration of the webhook, and give that configuration with --config",
    "claims.md",
)
COUNT_WAS_CLAIMED = Entry(
    "GT165",
    "the scheduler served its GPUs by a resource claim; which ones, and how they are linked, is not known here: the "
    "configuration has no claims looked at",
    "Set claims.enabled in the configuration of the webhook, and give that configuration with --config",
    "claims.md",
)
HOW_TO_ASK = Entry(
    "GT166",
    f'to request injection, set the annotation {_INJECT}: "true"',
    "Set the annotation and create the pod again",
    _ANNOTATIONS,
)
RESOURCE_CLAIMS = Entry(
    "GT167",
    "the pod gets devices by resource claims, which the webhook does not look at or could not read",
    "An administrator sets claims.enabled. Create claims and templates before the pod; or ask for GPUs by the count of "
    "a device plugin; or set what NCCL needs yourself",
    "claims.md",
)
LABEL_IS_AN_ANNOTATION = Entry(
    "GT168",
    "the label {key} has no effect: {key} is read as an annotation only",
    "Make it an annotation of the same name",
    _ANNOTATIONS,
)
ANNOTATION_IS_A_LABEL = Entry(
    "GT169",
    "the annotation {key} has no effect: {key} is read as a label only",
    "Make it a label of the same name",
    _NAMESPACES,
)
PERHAPS_MEANT_KEY = Entry(
    "GT170",
    "the {kind} {key} has no effect here; did you mean the {meant_kind} {meant}?",
    "Correct the name of the {kind}, if it was meant so",
    _ANNOTATIONS,
)

_NOT_KEPT = "annotations.md#options-that-are-not-kept"
OPTION_NOT_KEPT = Entry("GT176", "{key} is not kept: {why}", "Leave the option out. To have it kept: {fix}", _NOT_KEPT)
OPTIONS_WITHOUT_EFFECT = Entry(
    "GT177", "options without effect: {options}; {why}", "Leave these annotations out", _NOT_KEPT
)
REQUIREMENT_WOULD_NOT_BE_KEPT = Entry(
    "GT178",
    "the pod has a requirement that would not be kept, and says that a violation is denied",
    "Do what the message names, or leave the requirement out",
    _NOT_KEPT,
)
WOULD_NOT_KEEP = Entry(
    "GT179",
    "pod {pod} requires {keys}, which would not be kept: {why}",
    "Leave the requirement out, or set gpu.topology/on-violation: warn. To have it kept: {fix}",
    _NOT_KEPT,
)
NOT_PREPARED_BUT_JUDGED = Entry(
    "GT180",
    "the webhook did not prepare the pod: its requirements are judged by the links of its GPUs alone",
    "The reason of the pod's admission says why it was left alone",
    _NOT_KEPT,
)
PLAIN_DEVICE_PLUGIN = Entry(
    "GT181",
    "no HAMi, Volcano or Koordinator serves the GPUs of this cluster",
    "Install HAMi, which gives pods the cards that belong together. If it is there, an administrator sets "
    "cluster.hamiVersion",
    "compatibility.md#without-hami",
)
CLUSTER_WITHOUT_HAMI = Entry(
    "GT182",
    "a plain device plugin serves the GPUs, and there is no HAMi, Volcano or Koordinator: no scheduler, no annotated "
    "node, no DeviceClass. The webhook leaves pods that ask for {resource} as they are",
    "Install HAMi; what works without it stands in the documents. If it is there, set cluster.hamiVersion",
    "compatibility.md#without-hami",
)
PODS_NOT_KNOWN = Entry(
    "GT184",
    "the controller of this kind makes the pods ({places}): what they will be is not known here",
    "Analyze the pods once they exist: kubectl get pods -o yaml | gpu-topology analyze -f -",
    "analyze.md",
)
SCHEDULED_BY_VOLCANO = Entry(
    "GT185",
    "Volcano schedules the pod, so HAMi's scheduler gives it no GPUs; with gpucores it would stay pending",
    "Request volcano.sh/vgpu-number, which Volcano's vGPU device plugin serves; or set schedulerName to HAMi's "
    "scheduler (in a Volcano Job at spec.schedulerName, whose default is volcano)",
    "injection.md#pods-that-hami-leaves-alone",
)
MISPLACED_OPTION = Entry(
    "GT183",
    "{kind} {key} has no effect at {found}: the webhook reads the pod's",
    "Write it at {wanted}",
    _ANNOTATIONS,
)

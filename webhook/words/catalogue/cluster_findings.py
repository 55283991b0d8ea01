"""Findings of ``gpu-topology analyze`` that no single pod shows, in the areas 1 to 3 and 6 to 8."""

from webhook.words.catalogue.entry import Entry

_NAMESPACES = "annotations.md#opt-in"
_PERMISSIONS = "annotations.md#permissions"
_CARDS = "analyze.md#cards"
_AGENTS = "analyze.md#nodes"
_REGISTRATION = "install.md"
_CERTIFICATES = "operations.md#certificates"
_VERSIONS = "compatibility.md"

NAMESPACE_NOT_ALLOWED = Entry(
    "GT190",
    "the annotations of the namespace ask for {asked}, and it lacks the labels {labels}: pods that do not say "
    "otherwise are refused",
    "Have an administrator set the labels, or remove the annotations",
    _PERMISSIONS,
)
NAMESPACE_OPTION_UNREADABLE = Entry(
    "GT191",
    "an annotation of the namespace cannot be read, so its pods are refused: {problem}",
    "Correct the annotation",
    "annotations.md",
)
NAMESPACE_LABEL_WITHOUT_EFFECT = Entry(
    "GT192",
    "the label {label}: {value} has no effect: only {wanted} counts",
    "Set the label to {wanted}, or remove it",
    _NAMESPACES,
)
POD_MALFORMED = Entry(
    "GT193",
    "the pod cannot be read: {problem}",
    "Correct the manifest; the API server creates no such pod",
    "troubleshooting.md",
)
CARDS_WITHOUT_PARTNER = Entry(
    "GT243",
    "{cards} free, and every GPU that NVLink joins to {them} is shared by slices of {pods}: no pod can get {them} with "
    "an NVLink partner",
    "Move the slices together: delete the pods when that does no harm, and have them use other GPUs "
    "(nvidia.com/nouse-gpuuuid), or give slices nodes of their own. With placement.slices: on the planner puts new "
    "slices onto cards that are shared already",
    _CARDS,
)
SWITCH_GROUP_NOT_WHOLE = Entry(
    "GT244",
    "of the {count} GPUs behind the NVSwitch {sliced} shared by slices of {pods}: no pod can get all {count}",
    "Give slices nodes of their own, for example with a node selector. With placement.slices: on the planner puts new "
    "slices onto cards that are shared already",
    _CARDS,
)
BETTER_CARDS_ARE_FREE = Entry(
    "GT336",
    "the pod has {given} of node {given_node} ({given_link}), and {cards} of node {node} ({link}) are free",
    "Create the pod again when that does no harm. With placement.mode: on the webhook chooses the cards of new pods",
    "placement.md",
)
WAITS_FOR_LONG = Entry(
    "GT639",
    "the pod has waited behind the scheduling gate gpu.topology/place for {waited}",
    "Read what it waits for: gpu-topology explain {pod}. Ask for less, or free GPUs",
    "placement.md#what-a-waiting-pod-says",
)
AGENT_MISSING = Entry(
    "GT720",
    "the node has GPUs, and no agent has published how they are linked",
    "See that the DaemonSet of the agent selects the node, and read the log of its pod there",
    _AGENTS,
)
AGENT_SILENT = Entry(
    "GT721",
    "the agent of the node has {silence}, so what it published is not relied on",
    "Read the log of the agent's pod on the node",
    _AGENTS,
)
PUBLISHED_UNREADABLE = Entry(
    "GT722",
    "what the agent of the node published cannot be read: {problem}",
    "Use an agent of the version of the webhook",
    _AGENTS,
)
NOT_REGISTERED = Entry(
    "GT840",
    "there is no MutatingWebhookConfiguration of this name, so the API server asks the webhook about no pod",
    "Install the webhook; if it is registered by another name, give its configuration with --config",
    _REGISTRATION,
)
WEBHOOK_NOT_REGISTERED = Entry(
    "GT841",
    "it has no webhook {webhook}, so the API server does not ask about {what}",
    "Install the chart of the webhook again",
    _REGISTRATION,
)
TRUSTS_NO_AUTHORITY = Entry(
    "GT842",
    "the caBundle of {webhook} names no authority, so API servers do not trust the webhook",
    "See gpu-topology certs show, and the log of the webhook",
    _CERTIFICATES,
)
TRUSTS_OTHER_AUTHORITY = Entry(
    "GT843",
    "the caBundle of {webhook} does not name the authority of Secret {secret}, so API servers do not trust the webhook",
    "See gpu-topology certs show. The leader of the webhook's replicas repairs it; read their log",
    _CERTIFICATES,
)
CERTIFICATE_NOT_VALID = Entry(
    "GT844",
    "a certificate of {place} is valid from {begins} to {ends} only",
    "See gpu-topology certs show, and the log of the webhook",
    _CERTIFICATES,
)
CERTIFICATE_ENDS = Entry(
    "GT845",
    "a certificate of {place} ends on {ends}, and should have been replaced before",
    "See gpu-topology certs show, and the log of the webhook",
    _CERTIFICATES,
)
ASKED_AFTER_HAMI = Entry(
    "GT846",
    "the API server asks {hami} before it: HAMi's check of quotas does not see the whole cards that the webhook asks "
    "for",
    "Register the webhook by a name that comes before {hami} in the alphabet",
    "install.md",
)
NOT_ASKED_AGAIN = Entry(
    "GT847",
    "webhook {webhook} has reinvocationPolicy {policy}, and {others} may change pods after it",
    "Set reinvocationPolicy: IfNeeded",
    "install.md",
)
HAMI_GIVES_CARDS_AWAY = Entry(
    "GT848",
    "HAMi {hami} gives the GPUs of running pods away if one of their init containers asks for none",
    "Use a later release of HAMi, after a look at the running pods that it would misread: gpu-topology analyze -A "
    "--hami-version VERSION",
    _VERSIONS,
)
KUBERNETES_TOO_OLD = Entry(
    "GT849",
    "Kubernetes {kubernetes} is older than 1.28, the first that the webhook supports",
    "Upgrade Kubernetes",
    _VERSIONS,
)
HAMI_TOO_OLD = Entry(
    "GT850",
    "HAMi {hami} is older than 2.5, the first that the webhook supports",
    "Upgrade HAMi",
    _VERSIONS,
)
NOT_READ = Entry(
    "GT851",
    "{what} could not be read, and what depends on that is not judged: {problem}",
    "Have an administrator bind the ClusterRole gpu-topology-reader of the chart to you, or run the command",
    "analyze.md#permissions-of-the-caller",
)

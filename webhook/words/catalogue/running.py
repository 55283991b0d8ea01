"""GT85 and GT86: the programs of this project in a cluster, and pods that could not be created."""

from webhook.words.catalogue.entry import Entry

_PAGE = "analyze.md#the-installation"
_LOOK = (
    "Look why: kubectl -n {namespace} describe {kind} {name}, and the Events of its pods (image, quota, Secret, node)"
)

WEBHOOK_NOT_READY = Entry(
    "GT852",
    "no replica of the webhook is ready ({ready} of {wanted}), so API servers get no answer about pods with GPUs: pods "
    "are refused, or run as they are",
    _LOOK,
    _PAGE,
)
NO_ENDPOINTS = Entry(
    "GT853",
    "it sends API servers to Service {namespace}/{name}, which has no endpoint that is ready: pods with GPUs are "
    "refused, or run as they are",
    "Compare the selector of the Service with the labels of the webhook's pods, and see whether these are ready: "
    "kubectl -n {namespace} get endpointslices,pods",
    _PAGE,
)
POD_REFUSED = Entry(
    "GT854",
    "its pods cannot be created: webhook {webhook} refuses them: {said}",
    "Do what the message says, in the template of the pods or at their namespace; the controller tries again by itself",
    _PAGE,
)
WEBHOOK_NO_ANSWER = Entry(
    "GT855",
    "its pods cannot be created: the API server gets no answer from webhook {webhook}: {said}",
    "See whether the webhook is ready, and whether API servers reach it and trust its certificate (gpu-topology certs "
    "show); the controller tries again by itself",
    _PAGE,
)
QUOTA_EXCEEDED = Entry(
    "GT856",
    "its pods cannot be created: a ResourceQuota has no GPUs left: {said}",
    "Delete pods that are not needed, ask for less, or have an administrator raise the quota; whole cards count with "
    "all of their memory and cores",
    _PAGE,
)
RUNTIME_CLASS_MISSING = Entry(
    "GT862",
    "its pods cannot be created: RuntimeClass {name} does not exist, which they or a webhook's configuration name",
    "Remove runtimeClassName from the template, and from the configuration of the webhook (remap.runtimeClassName) and "
    "of HAMi, where the GPU Operator's NRI plugin serves the nodes; otherwise create the RuntimeClass",
    "compatibility.md#the-gpu-operators-nri-plugin",
)
PLANNER_NOT_READY = Entry(
    "GT857",
    "no replica of the planner is ready ({ready} of {wanted}), so pods behind the scheduling gate gpu.topology/place "
    "wait",
    _LOOK + "; gpu-topology place release --all opens the gates meanwhile",
    _PAGE,
)
PLANNER_SILENT = Entry(
    "GT858",
    "the planner is ready and does not work: {why}",
    "Read its log: kubectl -n {namespace} logs deployment/{name}; then kubectl -n {namespace} rollout restart "
    "deployment/{name}",
    _PAGE,
)
AGENTS_NOT_READY = Entry(
    "GT859",
    "{ready} of {wanted} agents are ready: how the cards of the other nodes are linked may have changed",
    _LOOK,
    _PAGE,
)
AGENT_MISSES_NODE = Entry(
    "GT860",
    "the node has GPUs, and the DaemonSet of the agents, {namespace}/{name}, has published nothing about it",
    "See whether a pod of the DaemonSet runs on the node (agent.nodeSelector, agent.tolerations and agent.affinity in "
    "the values of the chart decide), and what its log says",
    _PAGE,
)
SOME_NOT_READY = Entry(
    "GT861",
    "{ready} of {wanted} replicas are ready",
    _LOOK,
    _PAGE,
)

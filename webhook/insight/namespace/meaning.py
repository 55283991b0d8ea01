"""The meaning of each option and label of a namespace, in one clause whose subject is the namespace or its pods."""

from collections.abc import Mapping

from webhook.decisions.options import FORMER_NAMES
from webhook.words import names

OPTIONS: Mapping[str, str] = {
    "inject": "its GPU pods are injected, also those that ask for one card, or all are left alone that do not ask",
    "profile": "which containers reach each other's GPU memory",
    "policy": "which set of cards its pods ask for",
    "require-nvlink": "every pair of cards of a pod must have NVLink",
    "min-bandwidth": "the weakest pair of cards of a pod must have this bandwidth, in GB/s per direction",
    "on-violation": "what happens where a requirement is not met",
    "nvls": "the use of NVLink SHARP",
    "nccl-p2p-level": "the farthest path over which NCCL lets GPUs reach each other directly",
    "topology-file": "NCCL reads the topology of the pod from a file",
    "host-ipc": "its injected pods get the IPC namespace of their node, or do without it",
    "host-pid": "its injected pods get the process IDs of their node, or do without them",
    "host-network": "its injected pods get the network of their node, or do without it",
    "shm-size": "the size of the memory volume at /dev/shm",
    "remap": "how the program runs in a pod that verifies its cards",
    "containers": "the containers to which the profile applies",
    "group": "its pods run on one node, as one group",
    "colocate": "whether one node is required of a group, or preferred",
    "peers": "a warning is given where a pod seems to exchange GPU memory with others that cannot reach it",
    "isolation": "whether pods of profile node-peers run in namespaces of the host, or in their own",
    "place": "whether the planner chooses the cards of its pods",
    "place-wait": "how long a pod waits for better cards than those that are free",
    "group-size": "how many pods of a group get their cards together",
    "max-nodes": "the most nodes of a group",
    "min-gpus-per-node": "the fewest cards of a group on each of its nodes",
    "min-network-bandwidth": "the network between the nodes of a group has this bandwidth, in GB/s per direction",
    "node-policy": "which nodes the planner prefers",
    "move": "its pods may be moved by defrag, where they lose nothing by it",
    "expect-nvlink": "a hint is given where NVLink seems unused",
}
"""What each option decides; the keys are those of :data:`webhook.decisions.options.OPTION_NAMES`."""

_VALUES: Mapping[tuple[str, str], str] = {
    ("inject", "true"): "its pods with one whole card are injected too",
    ("inject", "false"): "its pods are left alone, except those that ask for injection themselves",
    ("profile", "exclusive"): "each container reaches the memory of its own cards",
    ("profile", "pod-peers"): "the containers of a pod see each other's cards and reach their memory",
    ("profile", "node-peers"): (
        "the pods of a node see each other's cards and reach their memory; they run in namespaces of the host"
    ),
    ("profile", "observe"): "its pods are left as they are; warnings and metrics say what would change",
    ("on-violation", "warn"): "a pod whose requirements are not met runs, with a warning",
    ("on-violation", "deny"): (
        "a pod whose requirements are not met does not start, and HAMi keeps its cards for it meanwhile"
    ),
    ("require-nvlink", "false"): "NVLink is not required",
    ("topology-file", "false"): "NCCL gets no topology file",
    ("place", "off"): "HAMi alone chooses the cards of its pods",
    ("move", "true"): "its pods may be moved by defrag, those of Jobs too",
    ("move", "false"): "its pods are never moved by defrag",
    ("expect-nvlink", "false"): "no hint is given where NVLink seems unused",
    ("isolation", "isolated"): (
        "its pods of profile node-peers run in namespaces of their own, with process IDs that no peer has"
    ),
    ("peers", "none"): "no warning is given where a pod seems to exchange GPU memory with others",
}
_LABELS: Mapping[str, str] = {
    names.INJECTION: "the webhook treats its pods as its options say; without any, those with two or more whole cards",
    names.ALLOW_HOST_IPC: "its pods may get the IPC namespace of their node (hostIPC)",
    names.ALLOW_HOST_PID: "its pods may get the process IDs of their node (hostPID)",
    names.ALLOW_HOST_NETWORK: "its pods may get the network of their node (hostNetwork)",
    names.ALLOW_NODE_GPUS: "its pods may see every card of their node, also those of other namespaces",
    names.POD_SECURITY_ENFORCE: "Kubernetes admits the pods that fit this Pod Security level",
    names.HAMI_WEBHOOK: "with ignore, HAMi's webhook leaves its pods alone, and so they get no cards of HAMi",
}
_PRIVILEGED = "Kubernetes admits every pod, privileged ones too: the other levels reject host namespaces"
ON = {names.INJECTION: "enabled", **dict.fromkeys((key for key in _LABELS if ".topology/allow-" in key), "true")}
"""The labels of ours, each with the value that has an effect."""
LABELS = (*ON, names.POD_SECURITY_ENFORCE, names.HAMI_WEBHOOK)
"""The labels of a namespace that decide about its GPU pods."""


def meaning_of_label(key: str, value: str) -> str:
    """Returns what a label of a namespace does; empty if it has no effect."""
    if key == names.POD_SECURITY_ENFORCE:
        return _PRIVILEGED if value == "privileged" else _LABELS[key]
    if key == names.HAMI_WEBHOOK:
        return _LABELS[key] if value == "ignore" else ""
    return _LABELS[key] if ON.get(key) == value else ""


def meaning_of_annotation(key: str, value: str) -> str:
    """Returns what an annotation of a namespace does; empty if it is no option."""
    name = key.removeprefix(names.PREFIX)
    if name.startswith(names.ENV_PREFIX):
        variable = name.removeprefix(names.ENV_PREFIX)
        return f"containers with GPUs get the variable {variable}, where they do not set it themselves"
    name = FORMER_NAMES.get(name, name)
    return _VALUES.get((name, value)) or OPTIONS.get(name, "")

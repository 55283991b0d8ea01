"""GT5: the access of containers, or pods, to each other's GPU memory."""

from webhook.words.catalogue.entry import Entry

_PAGE, _PROFILES = "explain.md#the-conditions", "annotations.md#profiles"
_NODE_PEERS = "Set gpu.topology/profile: node-peers and create the pod again"
_POD_PEERS = "Set gpu.topology/profile: pod-peers and create the pod again"
_ALL_ALIKE = "Create all pods of the group with the same profile and options"
_ALL_NODE_PEERS = "Create all pods of the group with profile node-peers"

CONTRADICTS_PROFILE = Entry(
    "GT501",
    "the pod sets something that its profile has to set differently",
    "Remove the variable, mount or field that the message names, or leave the container out with "
    "gpu.topology/containers, or choose another profile, or opt out",
    _PROFILES,
)
NAMESPACE_WITHHELD = Entry(
    "GT502",
    "the pod refuses a host namespace that its profile needs",
    'Remove gpu.topology/host-ipc: "false" or host-pid: "false", or choose the profile pod-peers or exclusive',
    _PROFILES,
)
WITHOUT_HOST_NAMESPACE = Entry(
    "GT503",
    "without {option} pods of profile {profile} cannot reach each other's GPU memory",
    "Remove the annotation that withholds it, or choose the profile pod-peers or exclusive",
    _PROFILES,
)
DEVICE_LIST_STRATEGY = Entry(
    "GT504",
    "the profile needs the device list strategy envvar",
    "Choose profile exclusive, or switch HAMi's device plugin to envvar and say so in cluster.deviceListStrategy",
    "configuration.md#cluster",
)
OTHER_DEVICE_LIST_STRATEGY = Entry(
    "GT505",
    "profile {profile} needs the device list strategy envvar, this cluster has {strategy}: the container's own list of "
    "GPUs would have no effect",
    "Choose profile exclusive",
    "configuration.md#cluster",
)
SHARED_PID_WITH_HOST_PID = Entry(
    "GT506",
    "pod {pod} sets shareProcessNamespace, which Kubernetes does not allow with hostPID",
    "Remove one of them",
    _PROFILES,
)
NO_SHARED_PID = Entry(
    "GT507",
    "pod {pod} sets shareProcessNamespace: false, but CUDA IPC between containers of profile pod-peers needs one PID "
    "namespace",
    "Remove the field, or choose profile exclusive",
    _PROFILES,
)
POD_SECURITY = Entry(
    "GT508",
    "Pod Security level {level} of namespace {namespace} will reject {fields}",
    "Use a namespace whose level is privileged, or choose the profile pod-peers",
    "security.md#pod-security",
)
PASSING_GPU_CONTAINER = Entry(
    "GT509",
    "init container {container} asks for GPUs, which others get once it finishes, but profile {profile} would go on "
    "showing them to its peers",
    "Leave it out with gpu.topology/containers, or choose profile exclusive",
    _PROFILES,
)
GROUP_LABEL_DIFFERS = Entry(
    "GT510",
    'pod {pod} has the label gpu.topology/group: "{label}", but its annotation of that name says "{group}"',
    "Remove the label",
    "annotations.md#labels",
)
DIFFERENT_SHM_DEVICES = Entry(
    "GT511",
    "pod {pod} mounts volume {volume} at /dev/shm, but in profile {profile} pods then have different devices there, "
    "and NCCL drops P2P",
    "Remove the mount",
    _PROFILES,
)
TWO_SHM_VOLUMES = Entry(
    "GT512",
    "pod {pod} mounts volumes {first} and {second} at /dev/shm, but in profile {profile} peers need one and the same",
    "Remove the mount",
    _PROFILES,
)
REFIT_WITH_PEERS = Entry(
    "GT513",
    "pod {pod} has hami.io/numa-alignment: {alignment}, with which HAMi may give its GPUs to others after the Binding, "
    "but profile {profile} fixes the GPUs at the Binding",
    "Remove the annotation; gpu.topology/policy: single-numa asks for GPUs of one NUMA node before the Binding",
    "compatibility.md#numa-refit",
)
_ISOLATED = "annotations.md#peers-without-namespaces-of-the-host"
NOTHING_TO_ISOLATE = Entry(
    "GT514",
    "gpu.topology/isolation has no effect in profile {profile}, only in node-peers",
    "Remove the annotation, or choose the profile node-peers",
    _ISOLATED,
)
ISOLATED_WITHOUT_REMAP = Entry(
    "GT515",
    "pod {pod} gets no remap container, which with gpu.topology/isolation: isolated gives its processes other IDs than "
    "those of its peers",
    "Remove gpu.topology/remap: binding, or choose gpu.topology/isolation: host",
    _ISOLATED,
)
ISOLATED_WITHOUT_SHARED_PID = Entry(
    "GT516",
    "pod {pod} sets shareProcessNamespace: false, but with gpu.topology/isolation: isolated the remap container gives "
    "process IDs to all containers of the pod",
    "Remove the field, or choose gpu.topology/isolation: host",
    _ISOLATED,
)
ISOLATED_WITH_NCCL = Entry(
    "GT517",
    "{container} seems to use NCCL between pods ({sign}), but isolated pods share no /dev/shm",
    "Choose gpu.topology/isolation: host for NCCL between pods, which otherwise takes the network. If it stays inside "
    "the pod, nothing is lost",
    _ISOLATED,
)
ISOLATED_BESIDE_HOST = Entry(
    "GT518",
    "the pod is to be isolated, and has {fields} all the same, by an option or its spec",
    "Remove the option or the field, or gpu.topology/isolation",
    _ISOLATED,
)
ISOLATED_CLAIM = Entry(
    "GT519",
    "pod {pod} shares the GPUs of its claim, so with gpu.topology/isolation: isolated they do not tell its process IDs "
    "from those of its peers",
    "Choose gpu.topology/isolation: host",
    _ISOLATED,
)
HOST_IDS_DIFFER = Entry(
    "GT520",
    "{containers} have different values of NCCL_HOSTID: to NCCL they are on different nodes",
    "Remove NCCL_HOSTID",
    _PAGE,
)
SHM_DIFFERS = Entry(
    "GT521",
    "containers have different devices at /dev/shm ({volumes}), so NCCL drops P2P",
    "Mount one volume at /dev/shm in all of them",
    _PAGE,
)
PID_NAMESPACES_DIFFER = Entry(
    "GT522", "each container has a PID namespace of its own, so CUDA IPC between them fails", _POD_PEERS, _PAGE
)
VISIBILITY_NOT_JUDGED = Entry(
    "GT523", "the webhook would refuse the pod: {refusal}", "Correct what the message names", _PAGE
)
VISIBILITY_REFUSED = Entry(
    "GT524",
    "{refusal}",
    "Correct what the message names",
    _PAGE,
    example=(
        "GT509: init container warm-up asks for GPUs, which others get once it finishes, but profile "
        "node-peers would go on showing them to its peers"
    ),
)
BLIND_IN_POD = Entry(
    "GT525",
    "{containers}",
    _POD_PEERS,
    _PAGE,
    example="container main sees no GPUs but its own",
)
BLIND_ON_NODE = Entry(
    "GT526",
    "{containers}",
    _NODE_PEERS,
    _PAGE,
    example="container main sees no GPUs but its own",
)
NO_GROUP = Entry(
    "GT530",
    "the pod has no group (gpu.topology/group), so its peers are not known",
    "Set gpu.topology/group on all of them",
    _PAGE,
)
GROUP_NOT_READ = Entry(
    "GT531",
    "the other pods of group {group} could not be read: {problem}",
    "Have the permission to list pods",
    _PAGE,
)
GROUP_NOT_KNOWN = Entry("GT532", "the other pods of group {group} are not known here", page=_PAGE)
GROUP_ALONE = Entry("GT533", "there is no other pod of group {group}", page=_PAGE)
PEER_NOT_SCHEDULED = Entry("GT534", "the pod is not scheduled yet", page=_PAGE)
GROUP_ON_OTHER_NODES = Entry(
    "GT535",
    "{others}, this pod on {node}",
    "Set gpu.topology/group with gpu.topology/colocate: required on all of them",
    _PAGE,
)
GROUP_NOT_SCHEDULED = Entry("GT536", "the other pods of group {group} are not scheduled yet", page=_PAGE)
NO_HOST_ID = Entry("GT540", "{containers} no NCCL_HOSTID: to NCCL the pod is a node of its own", _NODE_PEERS, _PAGE)
HOST_ID_NOT_NODE = Entry(
    "GT541",
    "{containers} a NCCL_HOSTID that is not the name of the node (fieldRef spec.nodeName)",
    _NODE_PEERS,
    _PAGE,
)
HOST_HASHES_DIFFER = Entry("GT542", "{pods} on the same node: another host hash than this pod", _ALL_ALIKE, _PAGE)
NO_HOST_IPC = Entry(
    "GT543",
    "the pod is not in the host's IPC namespace: /dev/shm is its own, so NCCL drops P2P",
    _NODE_PEERS,
    _PAGE,
)
SHM_COVERED = Entry(
    "GT544",
    "{containers} volume {volume} over the host's /dev/shm, so NCCL drops P2P between pods",
    "Remove the mount",
    _PAGE,
)
PEERS_WITHOUT_HOST_IPC = Entry(
    "GT545", "{pods} on the same node: not in the host's IPC namespace", _ALL_NODE_PEERS, _PAGE
)
ABSTRACT_SOCKET_OFF = Entry(
    "GT546",
    "NCCL_IPC_USE_ABSTRACT_SOCKET=0: NCCL 2.29 and later meets in the directory of temporary files",
    "Let the pods share that directory, or use the host's network",
    _PAGE,
)
OWN_NETWORK = Entry(
    "GT547",
    "own network namespace, and no NCCL_CUMEM_ENABLE=0: NCCL's sockets for memory handles do not meet",
    _NODE_PEERS,
    _PAGE,
)
NO_HOST_PID = Entry(
    "GT548", "the pod is not in the host's PID namespace, so CUDA IPC with other pods fails", _NODE_PEERS, _PAGE
)
PEERS_WITHOUT_HOST_PID = Entry(
    "GT549", "{pods} on the same node: not in the host's PID namespace", _ALL_NODE_PEERS, _PAGE
)
NVLS_NEEDS_SOCKET = Entry(
    "GT550",
    "{containers} no NCCL_NVLS_ENABLE=0: NCCL sets NVLink SHARP up over a socket all the same, and ends with an error",
    _NODE_PEERS,
    "nccl.md#nvlink-sharp-nccl_nvls_enable",
)
ISOLATED_UNPROVEN = Entry(
    "GT551",
    "the pod is isolated, with process IDs that begin at a number of its first GPU. That CUDA IPC needs no more was "
    "never tried here on a GPU",
    "Run make gpu on a machine with one GPU: the steps ipc-different-pids and ipc-own-ipc decide it",
    _ISOLATED,
)
ISOLATED_WITH_EQUAL_PIDS = Entry(
    "GT552",
    "the pod is isolated without shareProcessNamespace or without the remap container: its processes may have the IDs "
    "of its peers, and CUDA IPC between them fails",
    "Create the pod again, so that the webhook prepares it",
    _ISOLATED,
)
EXCHANGE_WITHOUT_PEERS = Entry(
    "GT570",
    "{container} seems to exchange GPU memory ({sign}); peers have no way to it {where}",
    "Set {way}, and create the pod again. If it exchanges none with other containers or pods, set "
    "gpu.topology/peers: none. What an administrator does first: {first}",
    "annotations.md#peers",
)
_ONE_POD = (
    "Request all GPUs that the job needs on a node in one pod, or set gpu.topology/profile: node-peers and one "
    "gpu.topology/group on all pods of the job"
)
RANKS_ON_ONE_NODE = Entry(
    "GT574",
    "the pod is a rank of {job}, and so is {others} on node {node}: NCCL takes the network between pods that share no "
    "namespaces",
    _ONE_POD,
    _PROFILES,
)
RANKS_NOT_KNOWN = Entry(
    "GT575",
    "the pod seems to be a rank of {job}: whether another rank is on its node is not known",
    f"If ranks share a node: {_ONE_POD}",
    _PROFILES,
)
EXCHANGE_WITHOUT_NVLINK = Entry(
    "GT580",
    "{containers} to exchange GPU memory with peers, and node {node} has no NVLink",
    "Run the pods on a node with NVLink; no profile and no permission brings NVLink to this one",
    "annotations.md#peers",
)
WAY_OF_NODE_PEERS = Entry(
    "GT571",
    "set gpu.topology/profile: node-peers and one gpu.topology/group on all peers, or gpu.topology/peers: none",
    "Write the one or the other into the template of the pods",
    "annotations.md#peers",
)
WAY_OF_POD_PEERS = Entry(
    "GT572",
    "set gpu.topology/profile: pod-peers, or gpu.topology/peers: none if its containers exchange none",
    "Write the one or the other into the template of the pod",
    "annotations.md#peers",
)
LABELS_OF_NODE_PEERS = Entry(
    "GT573",
    "for node-peers: kubectl label ns {namespace} {labels}",
    "Have an administrator set the labels",
    "annotations.md#permissions",
)
PEERS_WOULD_BE_REFUSED = Entry(
    "GT576",
    "{profile} refuses this pod as it is: {refusal}",
    "Change that in the template of the pods too",
    "annotations.md#peers",
)
WAY_OF_SERVER = Entry(
    "GT577",
    "LMCache's server requests no GPU: give it hostIPC, hostPID and NVIDIA_VISIBLE_DEVICES=all yourself",
    "Write them into the template of the server, on the node of its clients: the webhook leaves it alone",
    "annotations.md#peers",
)
SERVER_LACKS = Entry(
    "GT578",
    "container {container} is LMCache's server, which opens the GPU memory of its clients; it lacks {lacking}",
    "Write that into the template of the server yourself, and set gpu.topology/profile: node-peers on its clients: the "
    "webhook leaves a pod without a request for GPUs alone",
    "annotations.md#peers",
)
SERVER_NOT_KNOWN = Entry(
    "GT579",
    "container {container} is LMCache's server and has what it needs; which GPUs its clients have is not known here",
    "Look at its clients: gpu-topology explain POD",
    "annotations.md#peers",
)
USERS_DIFFER = Entry(
    "GT560",
    "NCCL's shared memory is open to one user only, and {first} runs as user {user}, {second} as user {other}",
    "Give all of them the same runAsUser",
    "annotations.md#profiles",
)
USER_OF_IMAGE = Entry(
    "GT561",
    "NCCL's shared memory is open to one user only, and {first} runs as user {user}, {second} as its image says",
    "Give all of them the same runAsUser",
    "annotations.md#profiles",
)

"""The keys, variables, volumes and paths that this project reads or writes, each spelled once.

A test searches the package for the prefix and fails on any other spelling.
"""

from webhook import __version__

PREFIX = "gpu.topology/"
LIKE_PREFIX = ("gpu.top", "gpu-top", "gpu_top", "gputop")
"""The beginnings of keys whose authors may have meant one of ours."""

# Labels of namespaces and pods.
INJECTION = PREFIX + "injection"
GROUP = PREFIX + "group"
ALLOW_HOST_IPC = PREFIX + "allow-host-ipc"
ALLOW_HOST_PID = PREFIX + "allow-host-pid"
ALLOW_HOST_NETWORK = PREFIX + "allow-host-network"
ALLOW_NODE_GPUS = PREFIX + "allow-node-gpus"

# Annotations that users write; the rest of a key after PREFIX names the option (decisions/options.py).
INJECT = PREFIX + "inject"
PROFILE = PREFIX + "profile"
CONTAINERS = PREFIX + "containers"
REMAP = PREFIX + "remap"
TOPOLOGY_FILE_OPTION = PREFIX + "topology-file"
ISOLATION = PREFIX + "isolation"
EXPECT_NVLINK = PREFIX + "expect-nvlink"
ENV_PREFIX = "env."

# Annotations that we write.
INJECTED = PREFIX + "injected"
CUDA_VISIBLE_DEVICES_PREFIX = PREFIX + "cuda-visible-devices."
VISIBLE_UUIDS = PREFIX + "visible-uuids"
NCCL_P2P_LEVEL = PREFIX + "nccl-p2p-level"
NCCL_NVLS = PREFIX + "nccl-nvls"
NCCL_ENV_PREFIX = PREFIX + "nccl-env."
LINK = PREFIX + "link"
BANDWIDTH = PREFIX + "bandwidth"
RING_ORDER = PREFIX + "ring-order"
NUMA = PREFIX + "numa"
SATISFIED = PREFIX + "satisfied"
NODE_TOPOLOGY = PREFIX + "node-topology"
PLACED = PREFIX + "placed"
CLAIMED_GPUS = PREFIX + "claimed-gpus"

# The annotation that gpu-topology verify writes onto a pod, with the rights of its caller.
MEASURED = PREFIX + "measured"
VERIFY_CONTROLLER = PREFIX + "verify"
VERIFY_FIELD_MANAGER = "gpu-topology-verify"
NAMESPACE_FIELD_MANAGER = "gpu-topology-namespace"
"""The writer of labels and annotations of a Namespace, for its user."""

# What some of them say until bind: no GPU rather than another pod's.
NO_CUDA_DEVICE = "-1"
NO_VISIBLE_DEVICE = "none"
UNKNOWN_TOPOLOGY = "{}"

# Without NCCL_P2P_LEVEL, which is an option as well.
OUTPUTS = frozenset(
    {
        INJECTED,
        VISIBLE_UUIDS,
        NCCL_NVLS,
        LINK,
        BANDWIDTH,
        RING_ORDER,
        NUMA,
        SATISFIED,
        NODE_TOPOLOGY,
        PLACED,
        CLAIMED_GPUS,
    }
)
OUTPUT_PREFIXES = (CUDA_VISIBLE_DEVICES_PREFIX, NCCL_ENV_PREFIX)

# What the planner knows waiting pods by: a scheduling gate and a label; and what it says of them: a pod condition.
PLACE_GATE = PREFIX + "place"
PLACEMENT = PREFIX + "placement"
SCHEDULED_CONDITION = "PodScheduled"
PLACED_CONDITION = PREFIX + "Placed"
PLANNER_LEASE = "gpu-topology-place"
PLANNER_PAUSED = "no planner"
"""The holder of the planner's Lease where no planner is to lead for a while."""
PLANNER_CONTROLLER = PREFIX + "planner"
PLANNER_FIELD_MANAGER = "gpu-topology-planner"

# What the agent publishes of a node: a ConfigMap with a label, and a label and an annotation of the Node.
NODE = PREFIX + "node"
NVLINK = PREFIX + "nvlink"
CORDONED = PREFIX + "cordoned"
# The taints by which it keeps claims from GPUs, and the annotation with the GPU of a DeviceTaintRule.
NVLINK_DOWN = PREFIX + "nvlink-down"
GPU_LOST = PREFIX + "gpu-lost"
GPU_UUID = PREFIX + "gpu-uuid"
# The annotation of its Lease that says what the GPUs did lately.
TRAFFIC = PREFIX + "traffic"
NODE_CONFIG_MAP_PREFIX = "gpu-topology-"
TOPOLOGY_KEY = "topology.json"
NCCL_TOPOLOGY_KEY = "nccl-topo.xml"
AGENT_FIELD_MANAGER = "gpu-topology-agent"
# What our programs send the API server as User-Agent, which its audit log shows.
WEBHOOK_USER_AGENT = f"gpu-topology-webhook/{__version__}"
AGENT_USER_AGENT = f"gpu-topology-agent/{__version__}"
PLANNER_USER_AGENT = f"gpu-topology-planner/{__version__}"
EXPLAIN_USER_AGENT = f"gpu-topology-explain/{__version__}"
ANALYZE_USER_AGENT = f"gpu-topology-analyze/{__version__}"
NAMESPACE_USER_AGENT = f"gpu-topology-namespace/{__version__}"
DEFRAG_USER_AGENT = f"gpu-topology-defrag/{__version__}"
PAGE_USER_AGENT = f"gpu-topology-page/{__version__}"
AGENT_CONTROLLER = PREFIX + "agent"
WEBHOOK_CONTROLLER = PREFIX + "webhook"
WEBHOOK_FIELD_MANAGER = "gpu-topology-webhook"
# Variables of its own container.
AGENT_NODE_NAME = "NODE_NAME"
AGENT_NAMESPACE = "POD_NAMESPACE"

# What looks after certificates: the type of their Secret, and an annotation of it.
CERTIFICATES_TYPE = PREFIX + "certificates"
CERTIFICATES_ROTATE = PREFIX + "rotate"
CERTIFICATES_FIELD_MANAGER = "gpu-topology-certificates"
# Variables of the webhook's container.
WEBHOOK_POD_NAME = "POD_NAME"

# What other components own.
HAMI_WEBHOOK = "hami.io/webhook"
"""A label of pods and namespaces; with the value ``ignore``, HAMi's webhook leaves them alone."""
# HAMi-DRA's webhook labels the pods whose limits it turns into claims: pkg/webhook/dra/mutating.go of its repository.
HAMI_DRA = "hami.io/dra"
HAMI_DEVICE_CLASS = "hami-core-gpu.project-hami.io"
# A DeviceClass without a name of its own for an extended resource has this one: k8s.io/api resource/v1 types.go.
CLASS_RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"
DEFAULT_SCHEDULER = "default-scheduler"
VOLCANO_SCHEDULER = "volcano"
VOLCANO_API = "volcano.sh"
"""The API groups of Volcano's workloads end in this: ``batch.volcano.sh``, ``flow.volcano.sh``."""
DEFAULT_NAMESPACE = "default"
HAMI_DEVICE_CORDON = "hami.io/device-cordon"
HAMI_SCHEDULER_POLICY = "hami.io/gpu-scheduler-policy"
HAMI_NODE_POLICY = "hami.io/node-scheduler-policy"
HAMI_NUMA_ALIGNMENT = "hami.io/numa-alignment"
HAMI_DEVICES_ALLOCATED = "hami.io/vgpu-devices-allocated"
HAMI_NODE_REGISTER = "hami.io/node-nvidia-register"
HAMI_NODE_SCORE = "hami.io/node-nvidia-score"
# HAMi's scheduler and its own container in it: charts/hami/templates/scheduler/deployment.yaml of its repository.
HAMI_SCHEDULER_LABEL = ("app.kubernetes.io/component", "hami-scheduler")
HAMI_SCHEDULER_CONTAINER = "vgpu-scheduler-extender"
VERSION_LABEL = "app.kubernetes.io/version"
# The labels that the chart puts on its own workloads, and the values of the second one.
PROGRAM_LABEL = ("app.kubernetes.io/name", "gpu-topology-webhook")
COMPONENT_LABEL = "app.kubernetes.io/component"
WEBHOOK_COMPONENT, PLANNER_COMPONENT, AGENT_COMPONENT = "webhook", "planner", "agent"
# The label of EndpointSlices with the name of their Service: k8s.io/api discovery/v1 well_known_labels.go.
SERVICE_LABEL = "kubernetes.io/service-name"
HAMI_DEVICES_TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
HAMI_ALLOCATED_NODE = "hami.io/vgpu-node"
HAMI_CHOICE = (HAMI_ALLOCATED_NODE, HAMI_DEVICES_ALLOCATED, HAMI_DEVICES_TO_ALLOCATE)
"""The annotations by which HAMi gives a pod its node and its cards."""
HAMI_MIG_ALLOCATIONS = "hami.io/vgpu-mig-allocations"
VOLCANO_DEVICES_ALLOCATED = "volcano.sh/vgpu-ids-new"
VOLCANO_ALLOCATED_NODE = "volcano.sh/vgpu-node"
KOORDINATOR_DEVICES_ALLOCATED = "scheduling.koordinator.sh/device-allocated"
USE_GPU_UUID = "nvidia.com/use-gpuuuid"
NO_USE_GPU_UUID = "nvidia.com/nouse-gpuuuid"
USE_GPU_TYPE = "nvidia.com/use-gputype"
NO_USE_GPU_TYPE = "nvidia.com/nouse-gputype"
NUMA_BIND = "nvidia.com/numa-bind"
VGPU_MODE = "nvidia.com/vgpu-mode"
MIG_RESOURCE_PREFIX = "nvidia.com/mig-"
# The annotations of pods by which NVIDIA's NRI plugin gives containers devices: for one container (/container.NAME),
# for all (/pod) or without either. Source: nvidia-container-toolkit
# cmd/nvidia-ctk-installer/container/runtime/nri/plugin.go.
NRI_DEVICES = "nvidia.cdi.k8s.io"
POD_SECURITY_ENFORCE = "pod-security.kubernetes.io/enforce"
# The users that a namespace of OpenShift gives to its pods: docs.redhat.com, OpenShift Container Platform, "Managing
# security context constraints".
OPENSHIFT_USERS = "openshift.io/sa.scc.uid-range"
CONFIG_MIRROR = "kubernetes.io/config.mirror"
HOSTNAME_TOPOLOGY = "kubernetes.io/hostname"

# Environment variables.
ENV_DISABLE_CONTROL = "CUDA_DISABLE_CONTROL"
ENV_CUDA_DEVICE_ORDER = "CUDA_DEVICE_ORDER"
ENV_CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
ENV_NVIDIA_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
ENV_NVIDIA_DRIVER_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
ENV_NCCL_HOSTID = "NCCL_HOSTID"
ENV_NCCL_CUMEM_ENABLE = "NCCL_CUMEM_ENABLE"
ENV_NCCL_P2P_LEVEL = "NCCL_P2P_LEVEL"
ENV_NCCL_NVLS_ENABLE = "NCCL_NVLS_ENABLE"
ENV_NCCL_TOPO_FILE = "NCCL_TOPO_FILE"
ENV_NCCL_CONF_FILE = "NCCL_CONF_FILE"
ENV_NCCL_MNNVL_ENABLE = "NCCL_MNNVL_ENABLE"
ENV_IMEX_CHANNELS = "NVIDIA_IMEX_CHANNELS"
NCCL_VARIABLE_PREFIX = "NCCL_"
REMAP_ENV_PREFIX = "GPU_TOPOLOGY_"
# What a LeaderWorkerSet writes on its pods and StatefulSets: sigs.k8s.io/lws api/leaderworkerset/v1.
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-key"
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
LWS_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
LWS_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
# How a pod names its PodGroup: kubernetes-sigs/scheduler-plugins apis/scheduling, HAMi pkg/util/types.go; and
# volcano.sh/apis pkg/apis/scheduling/v1beta1, KubeGroupNameAnnotationKey.
POD_GROUP = "scheduling.x-k8s.io/pod-group"
VOLCANO_GROUP = "scheduling.k8s.io/group-name"
# How a container shows that its job spans nodes: the rendezvous variables of torchrun and LeaderWorkerSet.
MULTINODE_VARIABLES = ("MASTER_ADDR", "PET_RDZV_ENDPOINT", "LWS_LEADER_ADDRESS")
# Labels that the operators of such jobs put on their pods.
JOB_ROLE = "training.kubeflow.org/job-role"
MULTINODE_LABELS = frozenset(
    (
        "training.kubeflow.org/job-name",
        "leaderworkerset.sigs.k8s.io/name",
        "jobset.sigs.k8s.io/jobset-name",
        "ray.io/cluster",
    )
)
REMAP_PROFILE = REMAP_ENV_PREFIX + "PROFILE"
REMAP_REQUIRE_NVLINK = REMAP_ENV_PREFIX + "REQUIRE_NVLINK"
REMAP_MIN_BANDWIDTH = REMAP_ENV_PREFIX + "MIN_BANDWIDTH"
REMAP_POLICY = REMAP_ENV_PREFIX + "POLICY"
REMAP_ON_VIOLATION = REMAP_ENV_PREFIX + "ON_VIOLATION"
REMAP_NCCL = REMAP_ENV_PREFIX + "NCCL"
REMAP_HOST_NETWORK = REMAP_ENV_PREFIX + "HOST_NETWORK"
REMAP_ISOLATION = REMAP_ENV_PREFIX + "ISOLATION"
REMAP_ENVIRONMENT = REMAP_ENV_PREFIX + "ENVIRONMENT"
REMAP_ALLOCATED_BY = REMAP_ENV_PREFIX + "ALLOCATED_BY"
REMAP_CONTAINERS = REMAP_ENV_PREFIX + "CONTAINERS"
REMAP_NODE_NAME = REMAP_ENV_PREFIX + "NODE_NAME"
REMAP_ALLOCATION = REMAP_ENV_PREFIX + "ALLOCATION"
REMAP_NODE_TOPOLOGY = REMAP_ENV_PREFIX + "NODE_TOPOLOGY"
REMAP_CUDA_VISIBLE_DEVICES_PREFIX = REMAP_ENV_PREFIX + "CUDA_VISIBLE_DEVICES_"
REMAP_VISIBLE_UUIDS = REMAP_ENV_PREFIX + "VISIBLE_UUIDS"
REMAP_NUMA_ALIGNMENT = REMAP_ENV_PREFIX + "NUMA_ALIGNMENT"
REMAP_BOUND_UUIDS = REMAP_ENV_PREFIX + "BOUND_UUIDS"

# Things in the pod.
REMAP_CONTAINER = "gpu-topology-remap"
REMAP_COMMAND = ("gpu-topology", "remap")
FILES_VOLUME = "gpu-topology"
FILES_PATH = "/run/gpu-topology"
TOPOLOGY_FILE = FILES_PATH + "/nccl-topo.xml"
NCCL_FILE = FILES_PATH + "/nccl.conf"
ENV_FILE = "env"
SHARED_MEMORY_VOLUME = "gpu-topology-shm"
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 - the path inside containers

"""The configuration of an operator: one YAML file, every field with a default."""

import difflib
import ipaddress
import re
from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

import msgspec

from webhook.decisions.allocation.limit import AllocationLimits
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.options import (
    OPTION_NAMES,
    Options,
    Variable,
    implied_node_policy,
    is_reserved,
    parse_option,
    parse_variable,
)
from webhook.decisions.resolve.demand import DECIDED_VARIABLES, LINK_TABLES, PCIE, NcclTables, format_tables
from webhook.decisions.resolve.nccl import P2P_DEFAULT
from webhook.decisions.resolve.node import NodeLimits
from webhook.hardware.topology.consistency import MAX_GPUS
from webhook.words import names
from webhook.words.choices import Objective, P2pLevel, PlacementMode, Slices
from webhook.words.errors import ConfigError, FormatError
from webhook.words.printable import fitted
from webhook.words.version import Version

_KEY_LIMIT = 100
DEFAULT_REMAP_IMAGE = "ghcr.io/gpu-topology-webhook/gpu-topology-remap"
# The name of an annotation is "nccl-env." and this name. It has at most 63 characters and ends with a letter or a
# digit: apimachinery pkg/util/validation. The remap program reads C identifiers only.
_TABLE_NAME = re.compile(r"[A-Za-z]|[A-Za-z_][A-Za-z0-9_]{0,52}[A-Za-z0-9]")
# The env file has its values in single quotes (KEP-3721), and Kubernetes expands $(NAME) in literals.
_NOT_IN_TABLES = frozenset("'\\$")
_LONGEST_IN_TABLES = 1023
"""In characters. NCCL cuts off longer values of its configuration file (src/misc/param.cc, setEnvFile)."""
_BY_LINK_CLASS = "its value depends on the GPUs: nccl.nvswitch, nccl.nvlink and nccl.pcie may have it, or the option "
# Variables that ``nccl.multinode`` may not hold, each with the reason. No table may hold the last one.
_OWN_SETTINGS = {
    names.ENV_NCCL_P2P_LEVEL: f"{_BY_LINK_CLASS}nccl-p2p-level",
    names.ENV_NCCL_NVLS_ENABLE: f"{_BY_LINK_CLASS}nvls",
    names.ENV_NCCL_CONF_FILE: "it names the file that the remap program writes from these tables",
}
_DECIDED_WORDS = {
    names.ENV_NCCL_P2P_LEVEL: tuple(level.value for level in P2pLevel if level is not P2pLevel.AUTO),
    names.ENV_NCCL_NVLS_ENABLE: ("0", "1", "2"),
}
# A DNS label, as the names of Services are, and safe for the other objects: apimachinery pkg/util/validation.
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_LIMIT = 63
LONGEST_DAYS = 36500
MOST_OVERLAP_SECONDS = 604_800
LEAST_REPLY = 128 * 1024
"""In bytes. Half of a reply holds all but the patch (webhook/decisions/admit/budget.py); most patches have 4 KiB."""
MOST_OF_PLACEMENT = 86_400
"""The upper bound of each number of the section ``placement``; for seconds, a day."""
LEAST_RELEASE_SECONDS = 30
"""Longer than a change of the leading planner takes, so that no pod loses the planner's choice by such a change."""
PCIE_LEVEL = "nccl.pcieP2PLevel"
_FINITE = 2**53
"""An upper bound that only infinity exceeds."""
_Count = Annotated[int, msgspec.Meta(ge=1)]
_Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
_Clients = Annotated[int, msgspec.Meta(ge=8)]
_Bytes = Annotated[int, msgspec.Meta(ge=1024)]
_Seconds = Annotated[float, msgspec.Meta(ge=1, le=_FINITE)]
_AboveZero = Annotated[float, msgspec.Meta(gt=0, le=_FINITE)]
_ZeroOrMore = Annotated[float, msgspec.Meta(ge=0, le=_FINITE)]
_OfPlacement = Annotated[int, msgspec.Meta(ge=1, le=MOST_OF_PLACEMENT)]
_Word = Annotated[str, msgspec.Meta(min_length=1)]


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of the sections of the file. Keys are written in camelCase; unknown keys are refused."""


class ResourceNames(Section, frozen=True, kw_only=True):
    """The resource names of one device plugin; HAMi lets administrators rename each."""

    family: Literal["hami", "volcano", "koordinator"]
    """The scheduler of these resources. HAMi's scheduler policy is set for ``hami`` only, and the allocation is read
    from the family's own annotation."""
    count: str
    """Number of GPUs."""
    memory: str
    """Memory of a slice, MiB for each GPU."""
    memory_percentage: str
    """Memory of a slice, per cent of each GPU."""
    cores: str
    """Compute of a slice, per cent of each GPU."""


HAMI_RESOURCES = ResourceNames(
    family="hami",
    count="nvidia.com/gpu",
    memory="nvidia.com/gpumem",
    memory_percentage="nvidia.com/gpumem-percentage",
    cores="nvidia.com/gpucores",
)
VOLCANO_RESOURCES = ResourceNames(
    family="volcano",
    count="volcano.sh/vgpu-number",
    memory="volcano.sh/vgpu-memory",
    memory_percentage="volcano.sh/vgpu-memory-percentage",
    cores="volcano.sh/vgpu-cores",
)


class ClusterSettings(Section, frozen=True, kw_only=True):
    """Facts about the cluster that are not detected, or are detected wrongly."""

    hami_version: str = ""
    """HAMi's version such as ``2.10.0``; empty: as detected."""
    kubernetes_version: str = ""
    """Kubernetes' version such as ``1.33``; empty: as detected."""
    device_list_strategy: Literal["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"] = "envvar"
    """The way in which the device plugin hands devices over (HAMi's ``deviceListStrategy``); only ``envvar`` allows the
    peer profiles."""
    default_count: _Count = 1
    """GPUs of a container that asks for memory or cores but gives no count (HAMi's ``defaultGPUNum``)."""
    topology_namespace: str = ""
    """Namespace in which the agents publish; empty: that of the webhook."""
    extended_resources: Literal["auto", "hami", "claims"] = "auto"
    """The server of the GPUs that pods ask for by HAMi's count: HAMi, or resource claims; ``auto``: as detected."""
    hami_scheduler_name: str = "hami-scheduler"
    """``schedulerName`` of pods that HAMi schedules (HAMi's ``schedulerName``)."""


class ClaimDriver(Section, frozen=True, kw_only=True):
    """A DRA driver that publishes GPUs in ResourceSlices."""

    name: str
    """``spec.driver`` of its ResourceSlices; a DNS name."""
    device_classes: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """DeviceClasses that give whole GPUs of this driver, those of your own among them."""
    part_classes: tuple[str, ...] = ()
    """DeviceClasses that give parts of its GPUs, such as MIG instances. Pods that claim them are left alone."""
    whole_types: tuple[str, ...] = ()
    """Values of the attribute ``type`` of devices that are whole GPUs; empty: all are."""
    uuid_attribute: _Word = "uuid"
    """The attribute with the UUID of the GPU, as ``nvidia-smi`` shows it."""
    preloads_library: bool = False
    """Whether the driver loads HAMi's library into every container, whatever the pod says."""


NVIDIA_CLAIMS = ClaimDriver(
    name="gpu.nvidia.com",
    device_classes=("gpu.nvidia.com",),
    part_classes=("mig.nvidia.com",),
    whole_types=("gpu",),
)
"""github.com/kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/deviceinfo.go, and its chart."""
HAMI_CLAIMS = ClaimDriver(
    name=names.HAMI_DEVICE_CLASS,
    device_classes=(names.HAMI_DEVICE_CLASS,),
    whole_types=("hami-gpu",),
    preloads_library=True,
)
"""github.com/Project-HAMi/k8s-dra-driver, cmd/hami-kubelet-plugin/hami_core.go."""


class ClaimSettings(Section, frozen=True, kw_only=True):
    """Pods that get their GPUs by ResourceClaims (Dynamic Resource Allocation)."""

    enabled: bool = False
    """Whether such pods are injected. The Bindings of the scheduler that allocates claims must reach the webhook, and
    it needs more rights. The chart does both, and writes its ``claims.enabled`` here."""
    drivers: tuple[ClaimDriver, ...] = (NVIDIA_CLAIMS, HAMI_CLAIMS)
    """The DRA drivers that publish GPUs. A list in the file replaces the whole default."""

    def driver(self, name: str) -> ClaimDriver | None:
        """Returns the driver of this name; ``None`` if the configuration knows no such driver."""
        return next((driver for driver in self.drivers if driver.name == name), None)

    def driver_of_class(self, device_class: str) -> ClaimDriver | None:
        """Returns the driver whose GPUs a DeviceClass gives; ``None`` if no configured driver names the class."""
        classes = ((driver, (*driver.device_classes, *driver.part_classes)) for driver in self.drivers)
        return next((driver for driver, found in classes if device_class in found), None)


class RemapSettings(Section, frozen=True, kw_only=True):
    """The remap container."""

    image: str = ""
    """The image of the remap container. Empty: this project's gpu-topology-remap, with this program's version as its
    tag. The chart sets it from ``remapImage`` and ``image``."""
    image_pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    """The pull policy of the image. Empty: Kubernetes decides."""
    sees_gpus: bool = True
    """Whether the container sees GPUs: those of its pod or, where the namespace may, all of the node. Without, it
    works from the published topology."""
    runtime_class_name: str = ""
    """Runtime class of injected pods that have none. Set it to ``nvidia`` where the NVIDIA runtime is not the
    default. A class that does not exist is left out."""
    environment: Literal["annotations", "file"] = "annotations"
    """Where containers take the values from that follow from their GPUs: annotations that the binding webhook writes,
    or a file that the remap program writes. ``file`` needs Kubernetes 1.35 or later on all nodes."""


class BindingSettings(Section, frozen=True, kw_only=True):
    """Bindings of pods to nodes."""

    read_seconds: _AboveZero = 2.0
    """Time for the API server to return the pod, and those of its group. Later: 503, ``pod-unreadable``. HAMi holds its
    lock of the node meanwhile."""
    topology_max_age_seconds: _AboveZero = 600.0
    """Time since the agent's last sign of life after which its topology counts as old."""
    schedulers: tuple[str, ...] = ()
    """User names whose Bindings the API server sends to the webhook. The webhook reports HAMi's schedulers that are
    missing. Empty: it does not compare. The chart writes ``admission.bindings.schedulers`` here."""


class NcclSettings(Section, frozen=True, kw_only=True):
    """NCCL variables per link class, beside those that bind decides.

    A variable that stands in all of the first three tables is set in the containers. One that stands in some of them
    goes into NCCL's configuration file, because a reference to an annotation cannot leave a variable unset.
    """

    pcie_p2p_level: Literal["auto", "PIX", "PXB", "PHB", "SYS"] = msgspec.field(default="auto", name="pcieP2PLevel")
    """Short for ``NCCL_P2P_LEVEL`` in ``pcie``. ``auto``: NCCL's own default, which depends on the machine."""
    nvswitch: dict[str, str] = {}
    """Variables for sets of GPUs that an NVSwitch joins."""
    nvlink: dict[str, str] = {}
    """Variables for sets whose every pair has NVLink."""
    pcie: dict[str, str] = {}
    """Variables for all other sets, those with NVLink between some pairs among them."""
    multinode: dict[str, str] = {}
    """Variables for pods of jobs that span nodes, whatever their GPUs."""


class NetworkLevel(Section, frozen=True, kw_only=True):
    """The network between nodes with one value of a label."""

    label: _Word
    """A label of nodes, such as ``topology.kubernetes.io/zone``."""
    bandwidth: _AboveZero
    """GB/s per direction between two of them; above 0."""
    latency: _ZeroOrMore = 0.0
    """Microseconds between two of them; 0 or more."""


class PlacementSettings(Section, frozen=True, kw_only=True):
    """The planner, which chooses the cards of pods before HAMi does."""

    mode: PlacementMode = PlacementMode.OBSERVE
    """``on``: pods wait for the planner, if one is alive. ``on-request``: only those that ask for something of their
    cards. ``observe``: no pod waits. For pods that do not wait the planner records what it would have chosen. ``off``:
    there is no planner. Quote "on" and "off", which some programs read as booleans."""
    slices: Slices = Slices.OBSERVE
    """Pods that ask for slices or for a single card, and are not injected. ``on``: they wait for the planner, which
    gives several slices linked cards and takes cards that others need last; only where ``mode`` has pods wait.
    ``observe``: the planner records what it would have chosen. ``off``: it leaves them to HAMi."""
    objective: Objective = Objective.BANDWIDTH
    """``bandwidth``: a pod gets the fastest free cards of the best link class. ``linked``: of all sets of that class
    the one that costs other pods least, so that fast cards stay for pods that require their bandwidth."""
    pin_seconds: _OfPlacement = 60
    """A pod with chosen cards that has no node after so long gets other cards, unless the scheduler or HAMi is away."""
    in_flight: _OfPlacement = 16
    """Pods with chosen cards and without a node, at a time."""
    attempts: _OfPlacement = 5
    """How often the planner chooses cards for one pod before it leaves the pod to the scheduler."""
    full_seconds: _OfPlacement = 60
    """How long a pod that only warns waits for a node with enough free cards. Then the scheduler gets it as it is, so
    that an autoscaler sees it. A group for which there would be room waits longer."""
    release_seconds: Annotated[int, msgspec.Meta(ge=LEAST_RELEASE_SECONDS, le=MOST_OF_PLACEMENT)] = 300
    """How long the webhook waits for a silent planner before it removes the gates of pods that only warn. Another
    planner needs up to 27 seconds to take the place of a leader that died."""
    reserve_seconds: _OfPlacement = 600
    """A pod that has waited for this time gets a node kept free for it, for the same time."""
    network: tuple[NetworkLevel, ...] = ()
    """The network between nodes, from the nearest to the farthest. Empty: the labels that are common for this, and the
    speed of the NICs."""


class LimitSettings(Section, frozen=True, kw_only=True):
    """Limits of one pod, so that no pod keeps the others waiting. See docs/configuration.md."""

    containers: _Count = 128
    """Containers of a pod, init containers among them, without the remap container."""
    env_annotations: _Count = 128
    """Variables that env annotations of pod and namespace, and ``defaults``, ask for."""
    reply_bytes: Annotated[int, msgspec.Meta(ge=LEAST_REPLY)] = 1024 * 1024
    """Bytes of the answer to a review. 64 KiB of them are kept for what is not patch; a patch is sent in base64."""
    segments: _Count = 128
    """Segments of a pod's allocation, one for each container. A Binding beyond this, or one of the next three, counts
    as unresolved: degraded, or refused (409) in a peer profile."""
    devices: _Count = 256
    """GPUs and parts of GPUs of a pod's allocation, and its MIG instances."""
    gpus: Annotated[int, msgspec.Meta(ge=1, le=MAX_GPUS)] = 32
    """GPUs of a node. To judge a set of 32 takes up to a fifth of a second, one of 64 more than a second."""
    links: _Count = 1024
    """Bundles of NVLinks of a node: those of each GPU to each of its targets."""

    @property
    def allocation(self) -> AllocationLimits:
        """The limits of an allocation."""
        return AllocationLimits(segments=self.segments, devices=self.devices)

    @property
    def node(self) -> NodeLimits:
        """The limits of a node."""
        return NodeLimits(gpus=self.gpus, links=self.links)


class ServerSettings(Section, frozen=True, kw_only=True):
    """The HTTPS server and its plain companion."""

    host: str = "0.0.0.0"  # noqa: S104 - a webhook is reached over the pod network
    """Address to listen on, both ports. ``--host`` overrules it."""
    port: _Port = 8443
    """HTTPS port of the reviews. ``--port`` overrules it."""
    ops_port: _Port = 8080
    """Plain HTTP port of probes and metrics. ``--ops-port`` overrules it."""
    max_review_bytes: _Bytes = 6 * 1024 * 1024
    """Larger bodies are answered with 413. The API server's own limit for an object is 3 MiB; a review may hold two."""
    drain_seconds: _ZeroOrMore = 5.0
    """How long after SIGTERM reviews are answered, each with ``Connection: close``. ``/readyz`` fails meanwhile.
    SIGINT stops at once."""
    keep_alive_seconds: _Count = 120
    """Idle connections are kept this long; below the API server's 90 s it loses requests to closing connections."""
    max_connections: _Clients = 512
    """Clients of the HTTPS port at a time. An API server has one connection for each review that it waits for, and
    keeps at most 25 idle ones."""
    stall_seconds: Annotated[float, msgspec.Meta(ge=5, le=_FINITE)] = 30.0
    """``/healthz`` fails when the event loop of the reviews has stood still for so long, and the kubelet restarts the
    replica. One heavy review must not reach it."""
    client_authority: str = ""
    """PEM file with the authority of the API server's client certificate, read anew when it changes; empty: clients
    need no certificate."""


class CertificateSettings(Section, frozen=True, kw_only=True):
    """The certificates that the webhook renews itself, without ``--tls`` and ``--self-signed``."""

    secret: str = "gpu-topology-webhook-tls"  # noqa: S105 - a name
    """Secret of the webhook's namespace that holds the certificates."""
    service: str = "gpu-topology-webhook"
    """Service whose names the certificates are for."""
    webhook_configuration: str = "gpu-topology-webhook"
    """MutatingWebhookConfiguration whose ``caBundle`` is kept right."""
    additional_names: tuple[str, ...] = ()
    """DNS names or IP addresses, where API servers reach the webhook by a URL instead of the Service."""
    lifetime_days: _Count = 90
    """Life of a serving certificate; it is renewed after two thirds."""
    authority_lifetime_days: Annotated[int, msgspec.Meta(le=LONGEST_DAYS)] = 730
    """Life of the authority, at least three times ``lifetimeDays``; a new one begins after two thirds."""
    check_seconds: Annotated[float, msgspec.Meta(ge=1, le=300)] = 15.0
    """Between two checks of the Secret and the webhook configuration. A leader that is silent for four is replaced."""
    settle_seconds: Annotated[float, msgspec.Meta(le=3600)] = 120.0
    """How long the webhook configuration must have named an authority before its certificates are served; at least
    ``checkSeconds``."""
    overlap_seconds: Annotated[float, msgspec.Meta(le=MOST_OVERLAP_SECONDS)] = 3600.0
    """How long an old authority stays trusted after certificates of the new one are served; at least
    ``settleSeconds``."""


class Config(Section, frozen=True, kw_only=True):
    """The whole file."""

    defaults: dict[str, str] = {}
    """Options of pods that neither the pod nor its namespace sets: annotation names without the prefix."""
    resources: Annotated[tuple[ResourceNames, ...], msgspec.Meta(min_length=1)] = (HAMI_RESOURCES, VOLCANO_RESOURCES)
    """Resource names, one entry for each device plugin."""
    cluster: ClusterSettings = ClusterSettings()
    claims: ClaimSettings = ClaimSettings()
    remap: RemapSettings = RemapSettings()
    nccl: NcclSettings = NcclSettings()
    binding: BindingSettings = BindingSettings()
    placement: PlacementSettings = PlacementSettings()
    limits: LimitSettings = LimitSettings()
    server: ServerSettings = ServerSettings()
    certificates: CertificateSettings = CertificateSettings()


class AdmitPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration as decisions use it: parsed and checked once, when the program starts."""

    defaults: Options
    resources: tuple[ResourceNames, ...]
    device_list_strategy: str
    default_count: int
    versions: ClusterFacts
    """The configured facts about the cluster, which overrule the detected ones."""
    hami_scheduler_name: str
    claims: ClaimSettings
    remap: RemapSettings
    nccl: NcclSettings
    binding: BindingSettings
    placement: PlacementSettings
    limits: LimitSettings
    knows_clients: bool
    """Whether clients must show certificates, so that reviews certainly come from the API server."""
    remap_image: str
    fixed_nccl: tuple[tuple[str, str], ...]
    """NCCL variables with one value for every link class."""
    bound_nccl: tuple[tuple[str, str], ...]
    """NCCL variables that bind decides, each with its value until then."""
    nccl_tables: NcclTables
    """The variables that bind decides, with their values by link class, and those of only some link classes."""
    remap_nccl: str
    """``nccl_tables`` as JSON for the remap program; empty if they are the program's defaults."""


def parse_config(document: Any) -> Config:
    """Returns the configuration of a parsed YAML document; ``None`` (an empty file) is all defaults.

    Raises:
        ConfigError: an unknown setting, or a value of the wrong kind; the text names the setting.
    """
    document = _without_empty_sections({} if document is None else document)
    _refuse_unknown_settings(document, Config, "")
    try:
        config = msgspec.convert(document, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(_readable(error, document)) from None
    _check_nccl(config.nccl)
    _check_claims(config.claims)
    _check_names(config)
    _check_relations(config)
    return config


def admit_policy(config: Config, *, version: str) -> AdmitPolicy:
    """Returns ``config`` as decisions use it; ``version`` is this program's, for the default remap image.

    Raises:
        ConfigError: a default option or a version does not parse.
    """
    fixed, bound = _nccl_variables(config.nccl)
    tables = _nccl_tables(config.nccl, {name for name, _ in fixed})
    return AdmitPolicy(
        defaults=_default_options(config.defaults),
        resources=config.resources,
        device_list_strategy=config.cluster.device_list_strategy,
        default_count=config.cluster.default_count,
        versions=_configured_facts(config),
        hami_scheduler_name=config.cluster.hami_scheduler_name,
        claims=config.claims,
        remap=config.remap,
        nccl=config.nccl,
        binding=config.binding,
        placement=config.placement,
        limits=config.limits,
        knows_clients=bool(config.server.client_authority),
        remap_image=config.remap.image or f"{DEFAULT_REMAP_IMAGE}:{version}",
        fixed_nccl=fixed,
        bound_nccl=bound,
        nccl_tables=tables,
        remap_nccl="" if tables == NcclTables() else format_tables(tables),
    )


def _default_options(defaults: Mapping[str, str]) -> Options:
    found: dict[str, Any] = {}
    variables: list[Variable] = []
    try:
        for name, text in defaults.items():
            source = f"defaults.{_named(name)}"
            if name.startswith(names.ENV_PREFIX):
                variable = name[len(names.ENV_PREFIX) :]
                variables.append(parse_variable(variable, text, source=source, replaces=False))
            elif name in OPTION_NAMES:
                found[name.replace("-", "_")] = parse_option(name, text, source=source)
            else:
                raise ConfigError(f"{source}: unknown option{_suggest(_named(name), OPTION_NAMES, 'defaults.')}")
    except FormatError as error:
        raise ConfigError(str(error)) from None
    found |= implied_node_policy(defaults)
    return Options(env=tuple(variables), **found)


def _by_variable(nccl: NcclSettings) -> dict[str, dict[str, str]]:
    """Returns the values of the three tables, by variable and then by link class."""
    tables: dict[str, Mapping[str, str]] = {link_class: getattr(nccl, link_class) for link_class in LINK_TABLES}
    found = dict.fromkeys(name for table in tables.values() for name in table)
    return {name: {link_class: table[name] for link_class, table in tables.items() if name in table} for name in found}


def _nccl_variables(nccl: NcclSettings) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Returns the variables in all three tables: first those with one value, then those that bind decides."""
    fixed: list[tuple[str, str]] = []
    bound: list[tuple[str, str]] = []
    for name, values in _by_variable(nccl).items():
        if len(values) == len(LINK_TABLES) and name not in DECIDED_VARIABLES:
            (fixed if len(set(values.values())) == 1 else bound).append((name, values[PCIE]))
    return tuple(fixed), tuple(bound)


def _nccl_tables(nccl: NcclSettings, fixed: Container[str]) -> NcclTables:
    by_variable = {name: values for name, values in _by_variable(nccl).items() if name not in fixed}
    if nccl.pcie_p2p_level != P2P_DEFAULT:
        levels = by_variable.setdefault(names.ENV_NCCL_P2P_LEVEL, {})
        levels[PCIE] = nccl.pcie_p2p_level
    return NcclTables(variables=by_variable)


def _configured_facts(config: Config) -> ClusterFacts:
    settings = config.cluster

    def version(name: str, text: str) -> Version | None:
        return Version.parse(text, source=f"cluster.{name}") if text else None

    try:
        return ClusterFacts(
            hami=version("hamiVersion", settings.hami_version),
            kubernetes=version("kubernetesVersion", settings.kubernetes_version),
            claimed=_claimed(config),
        )
    except FormatError as error:
        raise ConfigError(str(error)) from None


def _claimed(config: Config) -> frozenset[str] | None:
    """Returns the resources that claims serve; ``None``: as detected."""
    setting = config.cluster.extended_resources
    if setting == "auto":
        return None
    return frozenset(
        resource.count for resource in config.resources if resource.family == "hami" and setting == "claims"
    )


def _check_nccl(nccl: NcclSettings) -> None:
    for table in (*LINK_TABLES, "multinode"):
        for name, value in getattr(nccl, table).items():
            setting = f"nccl.{table}.{_named(name)}"
            if table in LINK_TABLES and name in DECIDED_VARIABLES:
                _check_decided(setting, name, value)
            else:
                _check_variable(setting, name, value)
    if nccl.pcie_p2p_level != P2P_DEFAULT and names.ENV_NCCL_P2P_LEVEL in nccl.pcie:
        raise ConfigError(f"nccl.pcie.{names.ENV_NCCL_P2P_LEVEL}: {PCIE_LEVEL} says the same. Remove one of them")


def _check_decided(setting: str, name: str, value: str) -> None:
    """Refuses a word that NCCL does not know: every pod gets the variable, and such a value has no effect."""
    words = _DECIDED_WORDS[name]
    if value not in words:
        raise ConfigError(str(FormatError(setting, expected=f"one of {', '.join(words)}", found=value)))


def _check_name(setting: str, name: str) -> None:
    if len(name) > LABEL_LIMIT or not _OBJECT_NAME.fullmatch(name):
        expected = f"a name of at most {LABEL_LIMIT} lower-case letters, digits and -"
        raise ConfigError(str(FormatError(setting, expected=expected, found=name)))


def _check_relations(config: Config) -> None:
    """Refuses settings that contradict each other."""
    certificates = config.certificates
    asked, most = sum(name.startswith(names.ENV_PREFIX) for name in config.defaults), config.limits.env_annotations
    if asked > most:
        raise ConfigError(f"defaults: expected at most {most} variables (limits.envAnnotations), found {asked}")
    if certificates.authority_lifetime_days < 3 * certificates.lifetime_days:
        raise ConfigError(
            "certificates: expected authorityLifetimeDays at least three times as long as lifetimeDays, found "
            f"{certificates.authority_lifetime_days} and {certificates.lifetime_days}. The last third of an "
            "authority's life must be long enough for a certificate"
        )
    if not certificates.check_seconds <= certificates.settle_seconds <= certificates.overlap_seconds:
        raise ConfigError(
            "certificates: expected checkSeconds <= settleSeconds <= overlapSeconds, found "
            f"{certificates.check_seconds}, {certificates.settle_seconds} and {certificates.overlap_seconds}"
        )


def _check_claims(claims: ClaimSettings) -> None:
    drivers = [driver.name for driver in claims.drivers]
    for name in drivers:
        _check_subdomain("claims.drivers: name", name)
        if drivers.count(name) > 1:
            raise ConfigError(f"claims.drivers: expected each driver once, found {name} twice")
    for driver in claims.drivers:
        where = f"claims.drivers: {driver.name}"
        for device_class in (*driver.device_classes, *driver.part_classes):
            _check_subdomain(f"{where}: deviceClasses", device_class)
            if claims.driver_of_class(device_class) != driver:
                raise ConfigError(f"{where}: DeviceClass {device_class} is that of another driver")
    if claims.enabled and not drivers:
        raise ConfigError("claims.drivers: expected at least one driver, found none. Or set claims.enabled: false")


def _check_subdomain(setting: str, name: str) -> None:
    if len(name) > 253 or not all(_OBJECT_NAME.fullmatch(label) for label in name.split(".")):
        raise ConfigError(str(FormatError(setting, expected="a DNS name such as gpu.nvidia.com", found=name)))


def _check_names(config: Config) -> None:
    certificates = config.certificates
    if config.cluster.topology_namespace:
        _check_name("cluster.topologyNamespace", config.cluster.topology_namespace)
    _check_name("certificates.secret", certificates.secret)
    _check_name("certificates.service", certificates.service)
    _check_name("certificates.webhookConfiguration", certificates.webhook_configuration)
    for name in certificates.additional_names:
        if not _is_server_name(name):
            expected = "DNS names and IP addresses"
            raise ConfigError(str(FormatError("certificates.additionalNames", expected=expected, found=name)))


def _is_server_name(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return len(name) <= 253 and all(_OBJECT_NAME.fullmatch(label) for label in name.split("."))
    return True


def _check_variable(setting: str, name: str, value: str) -> None:
    """Refuses a variable that an annotation, the env file or the remap program could not carry unchanged."""
    if not _TABLE_NAME.fullmatch(name):
        expected = "a name of at most 54 letters, digits and _, which begins with no digit and ends with no _"
        raise ConfigError(str(FormatError(setting, expected=expected, found=name)))
    if is_reserved(name) or name in _OWN_SETTINGS:
        reason = _OWN_SETTINGS.get(name, "the profile of a pod decides it")
        raise ConfigError(f"{setting}: {reason}. Remove the setting")
    if not value:
        raise ConfigError(f"{setting}: expected a value, found an empty one, which NCCL misreads")
    if not value.isprintable() or value != value.strip() or _NOT_IN_TABLES.intersection(value):
        expected = "printable characters without ', \\ and $, and no blanks around them"
        raise ConfigError(str(FormatError(setting, expected=expected, found=value)))
    if len(value) > _LONGEST_IN_TABLES:
        raise ConfigError(f"{setting}: expected at most {_LONGEST_IN_TABLES} characters, found {len(value)}")


def _without_empty_sections(document: Any) -> Any:
    """Returns ``document`` without its empty sections: YAML reads a section with only comments as null."""
    if not isinstance(document, dict):
        return document
    return {key: value for key, value in document.items() if value is not None}


_LISTED: Mapping[str, type[Section]] = MappingProxyType({"resources": ResourceNames, "drivers": ClaimDriver})
"""Settings that are lists of sections."""


def _refuse_unknown_settings(document: Any, section: type[Section], prefix: str) -> None:
    """Refuses the first key that ``section`` does not have, and names the key that was probably meant."""
    if not isinstance(document, Mapping):
        return
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(section)}
    for key, value in document.items():
        if key not in fields:
            name = _named(key)
            raise ConfigError(f"{prefix}{name}: unknown setting{_suggest(name, tuple(fields), prefix)}")
        kind = fields[key]
        if isinstance(kind, type) and issubclass(kind, Section):
            _refuse_unknown_settings(value, kind, f"{prefix}{key}.")
        elif key in _LISTED and isinstance(value, list):
            for index, item in enumerate(value):
                _refuse_unknown_settings(item, _LISTED[key], f"{prefix}{key}[{index}].")


def _named(key: object) -> str:
    """Returns a key as messages show it. A key of YAML may be any text of any length."""
    return fitted(str(key), _KEY_LIMIT)


def _suggest(name: str, known: tuple[str, ...], prefix: str) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f". Did you mean {prefix}{close[0]}?" if close else f". Known here: {', '.join(known)}"


_BOUND = re.compile(r" (?:of length )?[<>]=? ")
_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "str": "a string (quote it)",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}


def _readable(error: msgspec.ValidationError, document: Any) -> str:
    """Returns ``server.port: expected a whole number`` for ``Expected `int`, got `str` - at `$.server.port```.

    Args:
        error: The error.
        document: The document. A value that is out of its bounds is shown.
    """
    text, _, place = str(error).partition(" - at `$")
    setting = place.rstrip("`").lstrip(".") or "the file"
    if text.startswith("Invalid enum value "):
        choices = ", ".join(filter(None, _choices(setting)))
        return f"{setting}: expected one of {choices}, found {text.removeprefix('Invalid enum value ')}"
    text = re.sub(r"`([^`]*)`", lambda match: _WORDS.get(match[1], match[1]), text)
    text = text.replace(", got ", ", found ").replace("found a string (quote it)", "found a string")
    if _BOUND.search(text):
        text = f"{text.replace('a string (quote it)', 'a string')}, found {fitted(str(_at(document, setting)))}"
    return f"{setting}: {text[0].lower()}{text[1:]}"


def _at(document: Any, setting: str) -> Any:
    """Returns the value of a setting such as ``placement.network[0].bandwidth``; of a text or list its length."""
    for part in re.findall(r"[^.\[\]]+", setting):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document if isinstance(document, int | float) else len(document)


def _choices(setting: str) -> tuple[str, ...]:
    """Returns the values of a setting that has a closed list of them."""
    kind: Any = Config
    for part in re.sub(r"\[.*?\]", "", setting).split("."):
        kind = next(field.type for field in msgspec.structs.fields(kind) if field.encode_name == part)
        kind = _LISTED.get(part, kind)
    return get_args(kind) or tuple(kind)

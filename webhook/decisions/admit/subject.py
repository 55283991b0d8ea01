"""The subject of the injection steps: the pod and everything that is decided about it before the first step runs."""

from collections.abc import Mapping
from functools import cached_property

import msgspec

from webhook.decisions.admit.container import PodContainer
from webhook.decisions.admit.remap.choice import RemapChoice
from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import Options
from webhook.decisions.request.refit import alignment
from webhook.decisions.request.resources import GpuRequest, PodRequests
from webhook.decisions.request.settings import Texts, read_texts
from webhook.objects.pod import Namespace, Pod, PodSpec, Reference, Volume, annotation_reference
from webhook.words import names
from webhook.words.choices import Alignment, Isolation, Profile


class HostNamespaces(msgspec.Struct, frozen=True):
    """The host's namespaces that the pod will be in, and those of them that we put it into."""

    ipc: bool
    pid: bool
    network: bool
    ours: tuple[str, ...]
    """The spec fields that the profile or an option asks for, whether or not the pod has them already."""
    withheld: tuple[str, ...]
    """The spec fields that the profile needs and the pod refuses."""


class Subject(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One pod on its way through the steps."""

    pod: Pod
    spec: PodSpec
    namespace: Namespace
    policy: AdmitPolicy
    cluster: ClusterFacts
    options: Options
    profile: Profile
    """The profile that is applied. Never ``observe``: the caller of the steps handles it."""
    requests: PodRequests
    """The requests of the pod's containers as the user wrote them."""
    containers: tuple[PodContainer, ...]
    """All containers, init containers first."""
    gpu_containers: tuple[PodContainer, ...]
    """The containers that ask for GPUs and that the option ``containers`` does not leave out."""
    left_out: tuple[PodContainer, ...]
    """The containers that ask for GPUs and stay as they are."""
    remap: RemapChoice
    host: HostNamespaces
    volumes: Mapping[str, Volume]
    """The pod's volumes by name."""
    visible_device_keys: Mapping[str, str]
    """The ``cuda-visible-devices`` annotation of each GPU container, by container name; empty without peers."""
    allocated: Mapping[str, str]
    """The values of the annotations that we write, for a pod whose GPUs are known already; else empty."""
    family: str
    """The family of the pod's GPUs: ``hami``, ``volcano``, ``koordinator``, or ``claim`` where claims give them."""

    @cached_property
    def texts(self) -> Mapping[PodContainer, Texts]:
        """The settings in the commands of each of ``gpu_containers``."""
        every = read_texts(container.spec for container in self.gpu_containers)
        return dict(zip(self.gpu_containers, every, strict=True))

    @property
    def largest_request(self) -> int:
        """The most GPUs that one container asks for."""
        return max([self.gpu_request(container).count for container in self.gpu_containers], default=0)

    @property
    def is_isolated(self) -> bool:
        """True for a pod of ``node-peers`` that keeps namespaces of its own."""
        return self.profile is Profile.NODE_PEERS and self.options.isolation is Isolation.ISOLATED

    @property
    def name(self) -> str:
        """The name of the pod in messages."""
        return f"{self.namespace.name}/{self.pod.display_name}"

    @property
    def has_claims(self) -> bool:
        """True if resource claims give the pod its GPUs, as far as admission can know, and bind can read them."""
        return self.family == CLAIM

    @property
    def alignment(self) -> Alignment | None:
        """What lets HAMi change the allocation after the Binding; None if nothing does."""
        may_change = self.family == "hami" and not self.served_by_claims
        return alignment(self.pod.annotations) if may_change else None

    @property
    def resource(self) -> str:
        """The extended resource by whose count the pod asks for GPUs; empty if it asks by claims alone.

        Either a device plugin or a claim serves such a resource. That is a fact of the node and not known yet:
        pkg/scheduler/framework/plugins/dynamicresources of Kubernetes, extendeddynamicresources.go.
        """
        requests = (container.request for container in self.containers)
        return next((request.resource for request in requests if request and request.resource), "")

    @property
    def served_by_claims(self) -> str:
        """The extended resource of the pod's GPUs, if resource claims serve it; empty if the device plugin does."""
        counts = (container.request.resource for container in self.gpu_containers if container.request)
        return next((count for count in counts if self.cluster.is_claimed(count)), "")

    def sources(self, key: str, line: str) -> tuple[Reference, ...]:
        """Returns the places from which containers may take a value that follows from their GPUs.

        We write the first of them.
        """
        annotation = annotation_reference(key)
        if not self.remap.files_volume or not self.namespace.allows(names.ALLOW_NODE_GPUS):
            return (annotation,)
        in_file = Reference(volume=self.remap.files_volume, line=line)
        return (in_file, annotation) if self.remap.reads_file else (annotation, in_file)

    def gpu_request(self, container: PodContainer) -> GpuRequest:
        """Returns the request of a container of ``gpu_containers``, which has one by construction."""
        if container.request is None:
            raise TypeError(f"container {container.name} asks for no GPU")
        return container.request

"""The examination of a pod: the results of admission and bind, computed once for all conditions."""

import enum
from collections.abc import Mapping
from functools import cached_property

import msgspec

from webhook.decisions.admit.container import PodContainer, inspect
from webhook.decisions.admit.preparation import pod_to_inject, prepare
from webhook.decisions.admit.subject import Subject
from webhook.decisions.admit.trial import StepTrial, try_steps
from webhook.decisions.allocation.claim import FAMILY as CLAIM
from webhook.decisions.allocation.reader import DIALECTS
from webhook.decisions.bind.injection import injected_profile
from webhook.decisions.bind.pod_to_bind import PodToBind, pod_to_bind
from webhook.decisions.bind.resolution import peer_devices, resolve_pod
from webhook.decisions.claims.allocations import NOTHING_GIVEN, GivenGpus, given_gpus
from webhook.decisions.claims.evidence import claim_title
from webhook.decisions.claims.pod import claim_names
from webhook.decisions.claims.requests import NO_CLAIMS, ClaimedGpus, ClaimView, claimed_by_specs
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.options import Options, resolve_options
from webhook.decisions.request.claims import PodClaims, claim_view, read_claims
from webhook.decisions.request.exchange import Sign, signs
from webhook.decisions.request.observe_profile import observed_profile, profile_if_observed
from webhook.decisions.request.ranks import RankedJob, job_of
from webhook.decisions.request.resources import PodRequests, read_requests, unrecognized
from webhook.decisions.request.transfer_flags import said_by
from webhook.decisions.resolve.resolve import Resolution, Unresolved, UnresolvedError
from webhook.insight.explain.evidence import Evidence
from webhook.objects.pod import Container, PodSpec
from webhook.words import names
from webhook.words.catalogue.claims import CLAIM_NOT_READ, POOL_NOT_PUBLISHED, SLICES_NOT_READ
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.opting import BAD_OPTION
from webhook.words.choices import Peers, Profile
from webhook.words.errors import FormatError
from webhook.words.mark import Mark
from webhook.words.outcome import Refused


class Peering(enum.Enum):
    """What is known of peers of a pod."""

    KNOWN = enum.auto()
    NONE = enum.auto()
    """There are none, by evidence."""
    UNKNOWN = enum.auto()


class Unknown(msgspec.Struct, frozen=True):
    """The reason why the GPUs of the pod are not known."""

    reason: Unresolved
    message: Message


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The result of admission for the pod in one profile."""

    profile: Profile
    """The profile; in place of ``observe``, the profile that the pod would get without it."""
    subject: Subject | None
    """The pod as the steps see it; ``None`` where admission would refuse or skip it before the first step."""
    refusal: str
    """The reason why admission would refuse the pod; empty if it would not."""
    steps: Mapping[str, StepTrial]
    """The result of each step, tried on the pod as it is; empty without a subject."""


class ExaminedPod(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A pod with everything that admission and bind conclude about it."""

    evidence: Evidence
    holder: str
    """The pod as ``namespace/name``."""
    cluster: ClusterFacts
    """The facts of the cluster, overruled by those of the configuration."""
    injected_as: Profile | None
    """The profile with which admission injected the pod, read from its containers like bind does; ``None`` if none."""
    is_observed: bool
    """Whether bind only observes the pod: it was not injected, and admission would observe it now."""
    mark: Mark | None
    """The annotation ``gpu.topology/injected``. It is shown, and no condition depends on it."""
    mark_problem: str
    """The reason why the mark cannot be read; empty if it can, or if there is none."""
    requests: PodRequests
    requests_problem: Message | None
    """The reason why a request for GPUs cannot be read; ``None`` if all can."""
    claims: PodClaims | None
    """The claims of its containers that may be for GPUs; ``None`` if there are none, or where claims are enabled."""
    given: GivenGpus
    """The GPUs that claims gave the pod; none where the configuration does not enable claims."""
    options: Options
    """The options of the pod; the defaults of the configuration where an option cannot be read."""
    profile: Profile
    """The profile with which the pod was injected, else the one that fits the pod; never ``observe``."""
    fitting: Admission
    """The result of admission in ``profile``."""
    actual: Admission
    """The result of admission in the profile that admission itself would apply, or did apply."""
    containers: tuple[PodContainer, ...]
    """All containers, init containers first; empty if none asks for a device."""
    gpu_containers: tuple[PodContainer, ...]
    """The containers that ask for GPUs, without those that ``gpu.topology/containers`` leaves out."""
    resolution: Resolution | None
    """The result of ``resolve`` for the GPUs of the pod; ``None`` if they are not known."""
    at_binding: Resolution | None
    """The resolution with which the webhook answers the Binding. There the other pods of the group count only where a
    requirement of ``node-peers`` depends on them."""
    unresolved: Unknown | None
    """The reason why there is no resolution, for a pod with a node."""

    @property
    def spec(self) -> PodSpec:
        """The spec of the pod."""
        return self.evidence.pod.spec or PodSpec()

    @property
    def subject(self) -> Subject | None:
        """The pod as the steps see it, in the profile that fits."""
        return self.fitting.subject

    @property
    def steps(self) -> Mapping[str, StepTrial]:
        """The steps tried in the profile that fits."""
        return self.fitting.steps

    @property
    def injected(self) -> bool:
        """Whether the webhook prepared the pod, and did not only observe it."""
        return self.injected_as is not None

    @property
    def gpus(self) -> int:
        """The number of GPUs that all containers together ask for."""
        return sum(container.request.count for container in self.gpu_containers if container.request)

    @property
    def alone(self) -> bool:
        """Whether each container has one GPU, and no peers are known, so that NVLink has nothing to join in the pod."""
        has_peers = self.profile.shares_gpus or bool(self.exchanges) or self.ranks is Peering.KNOWN
        return self.has_single_gpus and not has_peers

    @property
    def has_single_gpus(self) -> bool:
        """Whether each container has one GPU."""
        counts = [container.request.count for container in self.gpu_containers if container.request]
        return bool(counts) and all(count == 1 for count in counts)

    @cached_property
    def job(self) -> RankedJob | None:
        """The job of which the pod is one rank of several; ``None`` without a sign of one, or with a profile for peers.

        Nothing is looked for where its options say that it has no peers, or where it has all GPUs of its node.
        """
        if self.profile.shares_gpus or self.options.peers is Peers.NONE or self._fills_its_node:
            return None
        evidence = self.evidence
        return job_of(evidence.pod, [each.spec for each in self.apps], evidence.claims.specs(evidence.pod))

    @cached_property
    def ranks(self) -> Peering:
        """Whether other ranks of its job are on its node; ``UNKNOWN`` only where its GPUs have no other work.

        Without a label of the job nobody can tell which pods are its ranks.
        """
        if self.job is None:
            return Peering.NONE
        if self.evidence.ranks and self.job.label:
            return Peering.KNOWN
        is_open = not self.evidence.node or not self.evidence.knows_ranks or not self.job.label
        return Peering.UNKNOWN if is_open and self.has_single_gpus else Peering.NONE

    @cached_property
    def unrecognized(self) -> Message | None:
        """What is not understood of the resources of a pod without known GPUs; ``None`` if all is."""
        if self.gpu_containers:
            return None
        annotations = self.evidence.pod.annotations
        is_allocated = any(annotations.get(dialect.key, "").strip(";") for dialect in DIALECTS if dialect.key)
        found = next(unrecognized(self.evidence.pod, self.requests), None)
        if found and is_allocated:
            return Message(found.code, f"{found.text}; the allocation on the pod shows GPUs", found.fix)
        return found

    @property
    def apps(self) -> tuple[PodContainer, ...]:
        """The containers with GPUs that are no init containers."""
        return tuple(container for container in self.gpu_containers if not container.is_init)

    @cached_property
    def exchanges(self) -> tuple[Sign, ...]:
        """The signs that the pod exchanges GPU memory with peers, to which its profile gives no way.

        None where its options say that it has no peers, or where it has all GPUs of its node, so that its peers are
        on others.
        """
        if self.profile.shares_gpus or self.options.peers is Peers.NONE or self._fills_its_node:
            return ()
        return signs(self.spec, [container.spec for container in self.apps])

    @cached_property
    def servers(self) -> tuple[Container, ...]:
        """The containers of LMCache's server in a pod that requests no GPU."""
        every = [] if self.gpu_containers else self.spec.containers or []
        return tuple(container for container, said in said_by(every) if said.is_server)

    def refusals_in(self, profile: Profile) -> list[Message]:
        """Returns why the steps of another profile would refuse the pod, or one like it before it was injected."""
        steps = _admission(self.evidence, self.requests, self.requests_problem, profile).steps
        ours = f"volume {names.SHARED_MEMORY_VOLUME} "
        found = (message for step in steps.values() for message in step.refusals)
        return [message for message in found if not (self.injected and ours in message.text)]

    @property
    def _fills_its_node(self) -> bool:
        topology = self.resolution.node.topology if self.resolution else None
        return len(self.apps) == 1 and topology is not None and self.gpus >= len(topology.gpus)

    @property
    def family(self) -> str:
        """The scheduler family whose resources the pod asks for."""
        return next((container.request.family for container in self.gpu_containers if container.request), "hami")

    @property
    def claimed(self) -> tuple[ClaimedGpus, ...]:
        """The GPUs that containers get by claims."""
        found = (container.request.claimed for container in self.gpu_containers if container.request)
        return tuple(claimed for claimed in found if claimed)

    @property
    def looks_at_claims(self) -> bool:
        """Whether the configuration enables resource claims."""
        return self.evidence.policy.claims.enabled

    @property
    def is_preloaded_by_claims(self) -> bool:
        """Whether a DRA driver preloads HAMi's library into containers of the pod."""
        return any(claimed.preloading_driver for claimed in self.claimed)

    @property
    def claimed_count(self) -> str:
        """The extended resource by whose count the pod asks for GPUs that resource claims serve; empty if none."""
        asked = (container.request.resource for container in self.gpu_containers if container.request)
        served = self.evidence.pod.has_extended_claim
        return next((count for count in asked if served or self.cluster.is_claimed(count)), "")

    @property
    def gets_claims_alone(self) -> bool:
        """Whether the pod asks for no GPU by a count and gets devices only by resource claims."""
        return self.claims is not None and not self.gpu_containers and not self.requests.mig

    @property
    def is_bound(self) -> bool:
        """Whether the pod has a node at the API server."""
        return bool(self.spec.node_name)

    @property
    def hami(self) -> str:
        """HAMi with its version, for a cluster whose version is known."""
        return f"HAMi {self.cluster.hami}"


def examine(evidence: Evidence) -> ExaminedPod:
    """Returns the pod with the results of admission and bind.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    given = _given(evidence)
    requests, requests_problem = _requests(evidence, given)
    mark, mark_problem = _mark(evidence)
    injected_as = injected_profile(requests.containers)
    options = _options(evidence)
    own = injected_as or _own_profile(evidence, options)
    profile = injected_as or _profile(evidence, own, options, requests)
    actual = _admission(evidence, requests, requests_problem, own)
    fitting = actual if own is profile else _admission(evidence, requests, requests_problem, profile)
    subject = fitting.subject
    containers = subject.containers if subject else [inspect(container, ()) for container in requests.containers]
    asking = subject.gpu_containers if subject else [container for container in containers if container.request]
    resolution, at_binding, unresolved = (
        _resolve(evidence, requests, options, profile, given) if asking else (None,) * 3
    )
    return ExaminedPod(
        evidence=evidence,
        holder=f"{evidence.namespace.name}/{evidence.pod.display_name}",
        cluster=evidence.cluster.overruled_by(evidence.policy.versions),
        injected_as=injected_as,
        is_observed=injected_as is None
        and profile_if_observed(evidence.pod, evidence.namespace, requests, evidence.policy) is not None,
        mark=mark,
        mark_problem=mark_problem,
        requests=requests,
        requests_problem=requests_problem,
        claims=None if evidence.policy.claims.enabled else read_claims(evidence.pod, requests),
        given=given,
        options=options,
        profile=profile,
        fitting=fitting,
        actual=actual,
        containers=tuple(containers),
        gpu_containers=tuple(asking),
        resolution=resolution,
        at_binding=at_binding,
        unresolved=unresolved,
    )


def _given(evidence: Evidence) -> GivenGpus:
    """Returns the GPUs that claims gave the pod; its problem says too which claim or slices could not be read."""
    known, settings = evidence.claims, evidence.policy.claims
    if not settings.enabled:
        return NOTHING_GIVEN
    given = given_gpus(evidence.pod, known.claims, known.pools, settings, node=evidence.node)
    if given.problem is None:
        return given
    titles = map(claim_title, claim_names(evidence.pod).by_entry.values())
    unread = next((title for title in titles if title in known.unread), None)
    if unread:
        message = CLAIM_NOT_READ.say(claim=unread, problem=known.unread[unread])
        return msgspec.structs.replace(given, problem=UnresolvedError(Unresolved.NO_ALLOCATION, message))
    if known.pools_problem and given.problem.message.code == POOL_NOT_PUBLISHED.code:
        message = SLICES_NOT_READ.say(problem=known.pools_problem)
        return msgspec.structs.replace(given, problem=UnresolvedError(Unresolved.NO_ALLOCATION, message))
    return given


def _claim_view(evidence: Evidence, given: GivenGpus) -> ClaimView:
    """Returns the GPUs that claims gave; where these are not known, the GPUs that the claims ask for.

    For a pod with a node the scheduler has decided whether claims or a device plugin serve an extended resource.
    """
    policy = evidence.policy
    if not policy.claims.enabled:
        return NO_CLAIMS
    if given.allocation.segments:
        return given.view(policy.claims)
    specs, spec = evidence.claims.specs(evidence.pod), evidence.pod.spec or PodSpec()
    if spec.node_name:
        return ClaimView(settings=policy.claims, containers=claimed_by_specs(evidence.pod, specs, policy.claims))
    return claim_view(evidence.pod, specs, policy, evidence.cluster.overruled_by(policy.versions))


def _requests(evidence: Evidence, given: GivenGpus) -> tuple[PodRequests, Message | None]:
    policy = evidence.policy
    try:
        return (
            read_requests(evidence.pod, policy.resources, policy.default_count, _claim_view(evidence, given)),
            None,
        )
    except Refused as refused:
        return PodRequests([], mig=False), refused.found


def _mark(evidence: Evidence) -> tuple[Mark | None, str]:
    text = evidence.pod.annotations.get(names.INJECTED)
    if text is None:
        return None, ""
    try:
        return Mark.parse(text), ""
    except FormatError as error:
        return None, str(error)


def _options(evidence: Evidence) -> Options:
    defaults = evidence.policy.defaults
    try:
        return resolve_options(defaults, evidence.pod, evidence.namespace)
    except FormatError:
        return defaults  # the result of admission says it


def _own_profile(evidence: Evidence, options: Options) -> Profile:
    """Returns the profile that admission would apply, or that it would observe."""
    if options.profile is not Profile.OBSERVE:
        return options.profile
    try:
        return observed_profile(evidence.namespace, evidence.policy.defaults)
    except FormatError:
        return Profile.EXCLUSIVE


def _profile(evidence: Evidence, profile: Profile, options: Options, requests: PodRequests) -> Profile:
    """Returns ``profile``, or ``node-peers`` if pod and namespace name no profile and the pod was set up so by hand."""
    said = any(names.PROFILE in holder.annotations for holder in (evidence.pod, evidence.namespace))
    if not said and profile is Profile.EXCLUSIVE and _meets_other_pods(evidence, options, requests):
        return Profile.NODE_PEERS
    return profile


def _meets_other_pods(evidence: Evidence, options: Options, requests: PodRequests) -> bool:
    """Returns whether the author of the pod set it up to work with other pods on its node."""
    pod, spec = evidence.pod, evidence.pod.spec or PodSpec()
    if options.group or pod.labels.get(names.GROUP) or (spec.host_ipc and spec.host_pid):
        return True
    asking = [container.spec for container in requests.containers if container.request]
    return any(variable.name == names.ENV_NCCL_HOSTID for spec in asking for variable in spec.env or ())


def _admission(
    evidence: Evidence, requests: PodRequests, requests_problem: Message | None, profile: Profile
) -> Admission:
    subject, refusal = (None, requests_problem.advice) if requests_problem else _subject(evidence, requests, profile)
    return Admission(profile=profile, subject=subject, refusal=refusal, steps=try_steps(subject) if subject else {})


def _subject(evidence: Evidence, requests: PodRequests, profile: Profile) -> tuple[Subject | None, str]:
    try:
        found = pod_to_inject(evidence.pod, evidence.namespace, requests, evidence.policy, evidence.cluster)
        return prepare(found, profile) if found else None, ""
    except Refused as refused:
        return None, refused.message
    except FormatError as error:
        return None, BAD_OPTION.say(problem=error).advice


def _resolve(
    evidence: Evidence, requests: PodRequests, options: Options, profile: Profile, given: GivenGpus
) -> tuple[Resolution | None, Resolution | None, Unknown | None]:
    """Returns the resolution with the GPUs of peers and the one for the Binding, or the reason why there is none."""
    if not evidence.node:
        return None, None, None
    try:
        pod = _pod_to_bind(evidence, requests, options, profile, given)
        peers = () if pod.demand.family == CLAIM else peer_devices(evidence.peers_here, "", evidence.policy)
        resolution = resolve_pod(pod, evidence.policy, evidence.sources, peers=peers)
        by_itself = bool(peers) and pod.group is None
        return resolution, resolve_pod(pod, evidence.policy, evidence.sources) if by_itself else resolution, None
    except Refused as refused:
        return None, None, Unknown(Unresolved.NO_ALLOCATION, refused.found)
    except UnresolvedError as error:
        return None, None, Unknown(error.reason, error.message)


def _pod_to_bind(
    evidence: Evidence, requests: PodRequests, options: Options, profile: Profile, given: GivenGpus
) -> PodToBind:
    pod, namespace, policy, node = evidence.pod, evidence.namespace, evidence.policy, evidence.node
    try:
        return pod_to_bind(pod, namespace, requests, options, policy, profile, node=node, given=given)
    except Refused:  # perhaps the option ``containers`` names other containers: all that ask for GPUs get some
        every = msgspec.structs.replace(options, containers=None)
        return pod_to_bind(pod, namespace, requests, every, policy, profile, node=node, given=given)

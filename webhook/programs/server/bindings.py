"""The reviews of Bindings. Each reads its pod from the API server, because HAMi annotated it milliseconds ago.

The claims of a pod were allocated just as recently, so they are read next, if the pod has any.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from time import perf_counter_ns
from typing import TypeVar

import msgspec

from webhook.cluster.state import Claims, Pods, State
from webhook.decisions.allocation.model import Device
from webhook.decisions.bind.binding import begin, finish, namespace_unknown, skip_outcome, unreadable
from webhook.decisions.bind.outcomes import INVALID, refused
from webhook.decisions.bind.pod_to_bind import PodToBind
from webhook.decisions.bind.resolution import peer_devices
from webhook.decisions.claims.allocations import NOTHING_GIVEN, GivenGpus, given_gpus
from webhook.decisions.claims.pod import MOST_CLAIMS, claim_names, used_entries
from webhook.decisions.configuration import AdmitPolicy
from webhook.objects.binding import Binding, BindOutcome, BindReason
from webhook.objects.binding_review import BindingRequest, decode_binding_review, encode_binding_reply
from webhook.objects.claims import ResourceClaim
from webhook.objects.pod import MalformedPod, Namespace, Pod
from webhook.programs.server.claims import ClaimReading, may_be_given
from webhook.programs.server.counts import Counts
from webhook.programs.server.events import Events
from webhook.programs.server.log import ReviewLog
from webhook.words.catalogue.claims import TOO_MANY_CLAIMS
from webhook.words.errors import ClaimsUnreadable, PodsUnreadable
from webhook.words.nesting import decode_answer
from webhook.words.outcome import Kind
from webhook.words.printable import fitted

_NOT_A_BINDING = BindOutcome(kind=Kind.SKIP, reason=BindReason.NOT_A_BINDING)
_NOT_ENABLED = BindOutcome(kind=Kind.SKIP, reason=BindReason.NAMESPACE_NOT_ENABLED)
_T = TypeVar("_T")
_decoder = msgspec.json.Decoder(Pod)
_NO_CLAIMS: Mapping[str, ResourceClaim] = {}


class BindingReviews:
    """The answers to reviews of Bindings."""

    def __init__(  # noqa: PLR0913 - what is known, what it is decided by, and who hears of it
        self,
        *,
        state: State,
        pods: Pods,
        claims: Claims,
        events: Events,
        policy: AdmitPolicy,
        log: ReviewLog,
        counts: Counts,
    ) -> None:
        self._state = state
        self._pods = pods
        self._claims = claims
        self._events = events
        self._policy = policy
        self._log = log
        self._counts = counts

    async def answer(self, body: bytes, started: int) -> bytes:
        """Return the reply to a review; ``started`` is the ``perf_counter_ns`` at which the review began to arrive.

        Raises:
            MalformedReview: ``body`` is no review that we can answer.
            MalformedPod: the API server sent something else than a pod.
            StateUnknown: not enough is known of the cluster.
        """
        request = decode_binding_review(body)
        reading = _Reading(self._pods, self._claims, self._policy.binding.read_seconds, self._counts)
        outcome, uid = await self._decide(request, reading)
        reply = encode_binding_reply(request.uid, request.object or Binding(), outcome)
        taken = perf_counter_ns() - started
        waited = reading.waited + reading.claims.waited
        self._log.bound(request, outcome, microseconds=taken // 1000, waiting=waited // 1000)
        if not request.dry_run:
            if reading.claims.waited:
                self._counts.claims_read(seconds=reading.claims.waited / 1e9)
            self._counts.bound(outcome, seconds=taken / 1e9, waiting=reading.waited / 1e9)
            if outcome.event and uid:
                self._events.tell(request.namespace, request.pod_name, uid, outcome.event)
        return reply

    async def _decide(self, request: BindingRequest, reading: "_Reading") -> tuple[BindOutcome, str]:
        """Return the outcome, and the uid of the pod at the API server; the uid is empty where it does not matter."""
        binding = request.object
        if request.operation != "CREATE" or binding is None or not binding.node or not request.pod_name:
            return _NOT_A_BINDING, ""
        found = self._state.namespace(request.namespace)
        namespace = found if isinstance(found, Namespace) else await found
        if not namespace.known:
            return namespace_unknown(namespace), ""
        if not namespace.injection_enabled:  # the API server sends no reviews from there
            return _NOT_ENABLED, ""
        try:
            found_pod = await reading.pod(request.namespace, request.pod_name)
            given: GivenGpus | BindOutcome = NOTHING_GIVEN
            if found_pod and may_be_given(found_pod, namespace, self._policy):
                if skipped := skip_outcome(found_pod, binding, namespace):
                    return skipped, ""
                given = await self._given(found_pod, binding, namespace, reading)
            if isinstance(given, BindOutcome):
                return given, ""
            pod = begin(found_pod, binding, namespace, self._policy, given)
            if isinstance(pod, BindOutcome):
                return pod, ""
            peers = await self._peers(pod, namespace, reading)
        except (PodsUnreadable, ClaimsUnreadable) as error:
            return unreadable(str(error)), ""
        return finish(pod, self._policy, self._state.node(pod.node), peers=peers), pod.uid

    async def _given(
        self, pod: Pod, binding: Binding, namespace: Namespace, reading: "_Reading"
    ) -> GivenGpus | BindOutcome:
        """Return the GPUs that a pod was given by claims; the outcome, if it has more claims than are read.

        Raises:
            ClaimsUnreadable: a claim cannot be read, or not in time.
            MalformedPod: a field has another type than in a pod.
            StateUnknown: not all is known yet.
        """
        used = used_entries(pod)
        wanted = [name for entry, name in claim_names(pod).by_entry.items() if entry in used]
        if len(wanted) > MOST_CLAIMS:
            message = TOO_MANY_CLAIMS.say(found=len(wanted), most=MOST_CLAIMS)
            return refused(BindReason.BAD_POD, INVALID, message.about(f"pod {namespace.name}/{pod.display_name}"))
        claims = await reading.claims.claims(namespace.name, wanted) if wanted else _NO_CLAIMS
        return given_gpus(pod, claims, self._claims.pools(), self._policy.claims, node=binding.node)

    async def _peers(self, pod: PodToBind, namespace: Namespace, reading: "_Reading") -> tuple[Device, ...]:
        group = pod.group
        if group is None:
            return ()
        return peer_devices(await reading.group(namespace.name, group, pod.node), pod.uid, self._policy)


class _Reading:
    """The reads of one review. Together they may take ``seconds``, because the scheduler holds the node meanwhile."""

    def __init__(self, pods: Pods, claims: Claims, seconds: float, counts: Counts) -> None:
        self._pods = pods
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._counts = counts
        self.claims = ClaimReading(claims, self._deadline, counts)
        self.waited = 0
        """Nanoseconds that the reads of pods took."""

    async def pod(self, namespace: str, name: str) -> Pod | None:
        """Return the pod as it is now; ``None`` if there is none of that name.

        Raises:
            PodsUnreadable: the pod cannot be read, or not in time.
            MalformedPod: what was read is no pod.
        """
        document = await self._wait(self._pods.pod(namespace, name, deadline=self._deadline), "pod")
        return None if document is None else _decode(document, f"pod {namespace}/{name}")

    async def group(self, namespace: str, group: str, node: str) -> list[Pod]:
        """Return the pods of a group that are on a node.

        Raises:
            PodsUnreadable: the pods cannot be read, or not in time.
            MalformedPod: what was read is no pod.
        """
        source = f"the pods of group {namespace}/{group}"
        documents = await self._wait(self._pods.group(namespace, group, node, deadline=self._deadline), "group")
        return [_decode(document, source) for document in documents]

    async def _wait(self, answer: Awaitable[_T], what: str) -> _T:
        started = perf_counter_ns()
        try:
            return await answer
        except PodsUnreadable:
            self._counts.failed_reads[what] += 1
            raise
        finally:
            self.waited += perf_counter_ns() - started


def _decode(document: bytes, source: str) -> Pod:
    try:
        return decode_answer(_decoder, document)
    except msgspec.DecodeError as error:
        raise MalformedPod(f"{fitted(source)}: expected a pod, found something else: {error}") from None

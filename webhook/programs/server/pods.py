"""The reviews of pods. They are answered from memory, so that they do not wait.

Only two things are read from the API server: a namespace in doubt, and the claims of a pod that has some.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from time import perf_counter_ns

from webhook.cluster.state import Claims, State
from webhook.decisions.admit.admission import admit
from webhook.decisions.configuration import AdmitPolicy
from webhook.objects.claims import ClaimSpec
from webhook.objects.pod import MalformedPod, Namespace, Pod
from webhook.objects.review import Request, decode_review, encode_reply
from webhook.programs.http.messages import BadRequest
from webhook.programs.server.claim_specs import SpecSource
from webhook.programs.server.claims import ClaimReading, specs_to_read
from webhook.programs.server.counts import Counts
from webhook.programs.server.log import ReviewLog
from webhook.words.outcome import Kind, Outcome, Reason

_NO_SPECS: Mapping[str, ClaimSpec | None] = {}
_NOT_A_CREATE = Outcome(kind=Kind.SKIP, reason=Reason.NOT_A_CREATE)


class PodReviews:
    """The answers to reviews of pods."""

    def __init__(self, *, state: State, claims: Claims, policy: AdmitPolicy, log: ReviewLog, counts: Counts) -> None:
        self._state = state
        self._claims = claims
        self._policy = policy
        self._log = log
        self._counts = counts

    def answer(self, body: bytes, started: int) -> bytes | Awaitable[bytes]:
        """Return the reply to a review; ``started`` is the ``perf_counter_ns`` at which the review began to arrive.

        Raises:
            MalformedReview: ``body`` is no review that we can answer.
            BadRequest: a field of the pod has another type than in a pod.
            StateUnknown: not enough is known of the cluster. A returned awaitable may raise it, too.
        """
        request = decode_review(body)
        pod = request.object
        if request.operation != "CREATE" or pod is None:
            return self._reply(request, _NOT_A_CREATE, started)
        namespace = self._state.namespace(request.namespace)
        if not isinstance(namespace, Namespace):
            return self._answer_later(request, pod, namespace, started)
        sources = self._sources(pod, namespace)
        if sources:
            return self._answer_with_claims(request, pod, namespace, sources, started)
        return self._reply(request, self._decide(pod, namespace), started)

    async def _answer_later(self, request: Request, pod: Pod, asked: Awaitable[Namespace], started: int) -> bytes:
        namespace = await asked
        sources = self._sources(pod, namespace)
        if sources:
            return await self._answer_with_claims(request, pod, namespace, sources, started)
        return self._reply(request, self._decide(pod, namespace), started)

    async def _answer_with_claims(
        self, request: Request, pod: Pod, namespace: Namespace, sources: Mapping[str, SpecSource], started: int
    ) -> bytes:
        """Return the reply after the claims of the pod were read, or could not be read in time."""
        deadline = asyncio.get_running_loop().time() + self._policy.binding.read_seconds
        reading = ClaimReading(self._claims, deadline, self._counts)
        specs = await reading.specs(request.namespace, sources)
        if not request.dry_run:
            self._counts.claims_read(seconds=reading.waited / 1e9)
        return self._reply(request, self._decide(pod, namespace, specs), started)

    def _sources(self, pod: Pod, namespace: Namespace) -> Mapping[str, SpecSource]:
        """Return the objects with the claims of the pod.

        Raises:
            BadRequest: a field has another type than in a pod.
        """
        try:
            return specs_to_read(pod, namespace, self._policy)
        except MalformedPod as error:
            raise BadRequest(400, str(error)) from None

    def _decide(self, pod: Pod, namespace: Namespace, specs: Mapping[str, ClaimSpec | None] = _NO_SPECS) -> Outcome:
        """Return the outcome of one review, from the state as it is now."""
        state = self._state
        try:
            return admit(
                pod,
                namespace,
                self._policy,
                state.cluster(),
                nodes=state.node,
                claim_specs=specs,
                fastest=state.fastest_pair,
            )
        except MalformedPod as error:
            raise BadRequest(400, str(error)) from None

    def _reply(self, request: Request, outcome: Outcome, started: int) -> bytes:
        reply = encode_reply(request.uid, outcome)
        taken = perf_counter_ns() - started
        if not request.dry_run:
            self._counts.admitted(outcome, seconds=taken / 1e9)
        self._log.admitted(request, outcome, taken // 1000)
        return reply

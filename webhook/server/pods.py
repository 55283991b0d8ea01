"""Reviews of pods: answered from memory, so that none of them waits; only a namespace in doubt is asked for."""

from collections.abc import Awaitable
from time import perf_counter_ns

from webhook.admit.admission import admit
from webhook.config import AdmitPolicy
from webhook.model.outcome import Kind, Outcome, Reason
from webhook.model.pod import MalformedPod, Namespace, Pod
from webhook.model.review import Request, decode_review, encode_reply
from webhook.server.body import BadRequest
from webhook.server.counts import Counts
from webhook.server.log import ReviewLog
from webhook.state import State

_NOT_A_CREATE = Outcome(kind=Kind.SKIP, reason=Reason.NOT_A_CREATE)


class PodReviews:
    """Answers reviews of pods."""

    def __init__(self, *, state: State, policy: AdmitPolicy, log: ReviewLog, counts: Counts) -> None:
        self._state = state
        self._policy = policy
        self._log = log
        self._counts = counts

    def answer(self, body: bytes, started: int) -> bytes | Awaitable[bytes]:
        """The reply to a review.

        Raises:
            MalformedReview: it is none that we can answer.
            BadRequest: a field of the pod has another type than in a pod.
            StateUnknown: not enough is known of the cluster. What is waited for may raise it too.
        """
        request = decode_review(body)
        pod = request.object
        if request.operation != "CREATE" or pod is None:
            return self._reply(request, _NOT_A_CREATE, started)
        namespace = self._state.namespace(request.namespace)
        if isinstance(namespace, Namespace):
            return self._reply(request, self._decide(pod, namespace), started)
        return self._answer_later(request, pod, namespace, started)

    async def _answer_later(self, request: Request, pod: Pod, namespace: Awaitable[Namespace], started: int) -> bytes:
        return self._reply(request, self._decide(pod, await namespace), started)

    def _decide(self, pod: Pod, namespace: Namespace) -> Outcome:
        """The outcome of one review, from the state as it is now."""
        state = self._state
        try:
            return admit(pod, namespace, self._policy, state.cluster(), nodes=state.node)
        except MalformedPod as error:
            raise BadRequest(400, str(error)) from None

    def _reply(self, request: Request, outcome: Outcome, started: int) -> bytes:
        reply = encode_reply(request.uid, outcome)
        taken = perf_counter_ns() - started
        if not request.dry_run:
            self._counts.admitted(outcome, seconds=taken / 1e9)
        self._log.admitted(request, outcome, taken // 1000)
        return reply

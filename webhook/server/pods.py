"""Reviews of pods: answered from memory, so that none of them waits."""

from time import perf_counter_ns

from webhook.admit.admission import admit
from webhook.admit.memory import Memory
from webhook.config import AdmitPolicy
from webhook.model.outcome import Kind, Outcome, Reason
from webhook.model.pod import MalformedPod
from webhook.model.review import Request, decode_review, encode_reply
from webhook.server.counts import Counts
from webhook.server.log import ReviewLog
from webhook.server.reviews import BadRequest
from webhook.state import State

_NOT_A_CREATE = Outcome(kind=Kind.SKIP, reason=Reason.NOT_A_CREATE)


class PodReviews:
    """Answers reviews of pods."""

    def __init__(self, *, state: State, policy: AdmitPolicy, log: ReviewLog, counts: Counts) -> None:
        self._state = state
        self._policy = policy
        self._log = log
        self._counts = counts
        self._memory: Memory[Outcome] = Memory()

    def answer(self, body: bytes, started: int) -> bytes:
        """The reply to a review.

        Raises:
            MalformedReview: it is none that we can answer.
            BadRequest: a field of the pod has another type than in a pod.
        """
        request = decode_review(body)
        try:
            outcome = self._decide(request)
        except MalformedPod as error:
            raise BadRequest(400, str(error)) from None
        reply = encode_reply(request.uid, outcome)
        if not request.dry_run:
            self._counts.admitted(outcome)
        self._log.admitted(request, outcome, (perf_counter_ns() - started) // 1000)
        return reply

    def _decide(self, request: Request) -> Outcome:
        """The outcome of one review, from the state as it is now."""
        pod = request.object
        if request.operation != "CREATE" or pod is None:
            return _NOT_A_CREATE
        state = self._state
        namespace = state.namespace(request.namespace)
        return admit(pod, namespace, self._policy, state.cluster(), nodes=state.node, memory=self._memory)

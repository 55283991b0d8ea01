"""The answers to questions of kube-scheduler. If anything goes wrong, all nodes pass.

A scheduler that gets no answer from an extender before HAMi's schedules no pod at all.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.place.extender import LeftAlone, Verdict, judge, read_question, scores
from webhook.decisions.place.pod import read_pod
from webhook.objects.extender import ExtenderQuestion, decode_question, encode_filtered, encode_scores
from webhook.objects.pod import Namespace
from webhook.programs.planner.extender.complaints import Complaints
from webhook.programs.planner.extender.counts import Counts, Result, Verb
from webhook.programs.planner.extender.knowledge import Knowledge
from webhook.words.errors import ManifestError

BUDGET_SECONDS = 0.5
"""Longest time for the choices of one answer. They hold up the whole loop, on which a leader renews its Lease."""
POD_BYTES = 1024 * 1024
"""Longest pod that is judged. The time to read one grows with it, and etcd keeps no object of more than 1.5 MiB."""
AGAIN_SECONDS = 0.1
"""Time before a second judgement if no node would be left. The scheduler may know a moment sooner than we that cards
were given back, and it asks about a refused pod again only when something else happens."""


class _Judged(NamedTuple):
    verdicts: dict[str, Verdict]
    result: Result
    text: str = ""
    """The problem, for the log."""


class Answers:
    """The answers to questions.

    Args:
        knowledge: The state of the cluster.
        policy: The configuration.
        namespaces: Returns the namespace of a name.
        counts: Takes the answers.
        complaints: Takes the problems.
        clock: Returns seconds that never go back.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        policy: AdmitPolicy,
        namespaces: Callable[[str], Namespace],
        *,
        counts: Counts,
        complaints: Complaints,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._knowledge = knowledge
        self._policy = policy
        self._namespaces = namespaces
        self._counts = counts
        self._complaints = complaints
        self._clock = clock

    async def filter(self, body: bytes) -> bytes:
        """Return the nodes that the pod may get.

        Raises:
            MalformedQuestion: the nodes cannot be read from ``body``.
        """
        question = decode_question(body)
        judged = self._judge(question)
        if judged.verdicts and all(verdict.refusal for verdict in judged.verdicts.values()):
            await asyncio.sleep(AGAIN_SECONDS)
            judged = self._judge(question)
        self._count(Verb.FILTER, judged)
        passed = [name for name, verdict in judged.verdicts.items() if not verdict.refusal]
        failed: dict[str, str] = {}
        unresolvable: dict[str, str] = {}
        for name, verdict in judged.verdicts.items():
            if verdict.refusal:
                self._counts.removed[verdict.refusal.code] += 1
                (unresolvable if verdict.lasts else failed)[name] = str(verdict.refusal)
        return encode_filtered(question, passed, failed, unresolvable)

    async def prioritize(self, body: bytes) -> bytes:
        """Return a score of each node for the pod.

        Raises:
            MalformedQuestion: the nodes cannot be read from ``body``.
        """
        question = decode_question(body)
        judged = self._judge(question)
        self._count(Verb.PRIORITIZE, judged)
        return encode_scores(scores(judged.verdicts))

    def _judge(self, question: ExtenderQuestion) -> _Judged:
        passed = dict.fromkeys(question.nodes, Verdict())
        try:
            return self._verdicts(question)
        except LeftAlone as why:
            return _Judged(passed, Result.LEFT_ALONE, str(why))
        except (ManifestError, RecursionError) as error:
            return _Judged(passed, Result.MALFORMED, str(error))
        except Exception:  # the one catch-all: a bug of ours must not keep pods from their nodes
            self._knowledge.doubt()
            return _Judged(passed, Result.BUG, "a bug, whose traceback is in the log")

    def _verdicts(self, question: ExtenderQuestion) -> _Judged:
        """Judge the nodes. Every error is raised."""
        document = bytes(question.pod)
        if len(document) > POD_BYTES:
            passed = dict.fromkeys(question.nodes, Verdict())
            return _Judged(passed, Result.MALFORMED, f"expected a pod of at most {POD_BYTES} bytes, found more")
        asked = read_question(read_pod(document, "of the question", None), self._policy, self._namespaces)
        if blindness := self._knowledge.blindness:
            return _Judged(dict.fromkeys(question.nodes, Verdict()), Result.NOT_READY, blindness)
        end = self._clock() + BUDGET_SECONDS
        was_late = False

        def late() -> bool:
            nonlocal was_late
            was_late = self._clock() > end
            return was_late

        verdicts = judge(self._knowledge.world, asked, question.nodes, late)
        if was_late:
            return _Judged(verdicts, Result.LATE, f"not all nodes were judged within {BUDGET_SECONDS} s")
        return _Judged(verdicts, Result.JUDGED)

    def _count(self, verb: Verb, judged: _Judged) -> None:
        self._counts.requests[verb, judged.result] += 1
        if judged.result not in (Result.JUDGED, Result.LEFT_ALONE):
            self._complaints.say(judged.result, verb=verb, text=judged.text)

"""The state of the cluster in memory, filled beside the reviews: mirrors by watches, and versions by requests."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection

from webhook.cluster import kinds
from webhook.cluster.api.current_objects import LiveNamespaces
from webhook.cluster.api.errors import AnswerTooLong, ApiRefused, ApiServerAway, NotServed
from webhook.cluster.api.reflector import filled_from
from webhook.cluster.api.verbs import Api, Reply
from webhook.cluster.state.cluster import VERSIONS, ClusterState, Places
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import ClaimSettings
from webhook.decisions.detection import (
    claimed_resources,
    hami_version,
    has_no_scheduler,
    kubernetes_version,
    scheduler_accounts,
)
from webhook.programs.log import Log
from webhook.programs.server.vitals import Vitals
from webhook.programs.upkeep import RETRY_SECONDS, Upkeep, between
from webhook.words.errors import FormatError
from webhook.words.printable import printable
from webhook.words.version import Version

_KUBE_SCHEDULER = "system:kube-scheduler"
"""The user name of kube-scheduler: kubernetes.io, "Using RBAC Authorization", core component roles."""
MOST_SCHEDULERS, MOST_CLASSES = 10, 500
VERSIONS_SECONDS = (120.0, 240.0)
"""Shortest and longest time between two looks. HAMi and Kubernetes are seldom updated, never on all nodes at once."""


class ClusterCaches:
    """The state of a cluster, and the work that keeps it up to date: a :class:`webhook.programs.server.run.Background`.

    The server listens while the caches are filled for the first time. Until then reviews get 503 and the server is not
    ready.

    Args:
        api: The API server; the caller closes it.
        places: The namespaces of the agents' ConfigMaps and of the planner's Lease.
        configured: Versions that need not be looked for.
        schedulers: User names whose Bindings reach the webhook; empty if they are not known.
        runtime_class: The RuntimeClass that the configuration names; empty: none.
        claims: The settings of claims. ResourceSlices are mirrored only if claims are enabled.
        max_age: ``binding.topologyMaxAgeSeconds``.
        log: Takes what happens.
    """

    def __init__(  # noqa: PLR0913 - what is to be known, and from where
        self,
        api: Api,
        places: Places,
        *,
        configured: ClusterFacts,
        schedulers: Collection[str],
        runtime_class: str,
        claims: ClaimSettings,
        max_age: float,
        log: Log,
    ) -> None:
        self._log = log
        self._configured = configured
        self._schedulers = frozenset(schedulers)
        self._runtime_class = runtime_class
        self._claims_enabled = claims.enabled
        self._unmatched: frozenset[str] | None = None
        """Accounts of HAMi's schedulers whose Bindings do not reach the webhook; ``None`` if that is not known."""
        self._api = api
        self._said: dict[str, str] = {}
        self.state = ClusterState(LiveNamespaces(api), places, max_age=max_age, claims=claims, tell=self._tell)
        self.errors: Counter[tuple[str, str]] = Counter()
        """Failed requests, by resource and kind, such as ``away``: the kinds of :mod:`webhook.cluster.api.errors`."""
        mirroring = self.state.keeper.work(filled_from(api), self.errors)
        self._upkeep = Upkeep((*mirroring, self._watch_versions), log)

    async def open(self) -> None:
        """Begin to fill the caches, and return at once."""
        self._upkeep.open()

    async def close(self) -> None:
        """Stop filling the caches. Their content stays."""
        await self._upkeep.close()

    def vitals(self) -> Vitals:
        """Return the vitals of the caches."""
        report = self.state.report()
        return Vitals(
            caches=report.caches,
            topologies=report.topologies,
            api_errors=self.errors,
            unmatched_schedulers=None if self._unmatched is None else len(self._unmatched),
        )

    async def _watch_versions(self) -> None:
        self._say_who_binds_claims()
        while True:
            problem = ""
            try:
                self.state.detected(await self._detect())
            except ApiServerAway as error:
                self.errors[VERSIONS, error.kind] += 1
                problem = str(error)
            self.state.versions_problem = problem
            self._say(VERSIONS, problem)
            await asyncio.sleep(between(RETRY_SECONDS if problem else VERSIONS_SECONDS))

    async def _detect(self) -> ClusterFacts:
        """Return the facts. A fact that an answer does not show is unknown; a configured version is not asked for.

        Raises:
            ApiServerAway: the API server does not answer.
        """
        hami, kubernetes = self._configured.hami, self._configured.kubernetes
        answer: bytes | None = None
        if hami is None or self._schedulers:
            what = "list Deployments of HAMi's scheduler"
            deployments = self._api.first_page(kinds.HAMI_SCHEDULERS, MOST_SCHEDULERS, what=what)
            answer = await self._answer("HAMi", deployments)
            self._compare_schedulers(answer)
            hami = hami or self._version("HAMi", answer, hami_version)
        if kubernetes is None:
            version = await self._answer("Kubernetes", self._api.kubernetes())
            kubernetes = self._version("Kubernetes", version, kubernetes_version)
        claimed, has_hami_dra = await self._claimed()
        return ClusterFacts(
            hami=hami,
            kubernetes=kubernetes,
            claimed=claimed,
            has_hami_dra=has_hami_dra,
            lacks_hami=claimed is not None and not has_hami_dra and answer is not None and has_no_scheduler(answer),
            missing_runtime_classes=await self._missing_runtime_classes(),
        )

    async def _missing_runtime_classes(self) -> frozenset[str]:
        """Return the RuntimeClass of the configuration if it does not exist. One that may not be read counts as there.

        Raises:
            ApiServerAway: the API server does not answer.
        """
        name, what = self._runtime_class, "RuntimeClass of remap.runtimeClassName"
        if not name:
            return frozenset()
        try:
            is_there = await self._api.find(kinds.RUNTIME_CLASS, name) is not None
        except (ApiRefused, AnswerTooLong) as error:
            self.errors[VERSIONS, error.kind] += 1
            self._say(what, str(error))
            return frozenset()
        said = f"RuntimeClass {printable(name)} of remap.runtimeClassName does not exist: pods do not get it"
        self._say(what, "" if is_there else said, otherwise="it exists")
        return frozenset() if is_there else frozenset({name})

    async def _claimed(self) -> tuple[frozenset[str] | None, bool]:
        """Return the resources that DeviceClasses serve, and whether HAMi's DRA driver has a DeviceClass."""
        if self._configured.claimed == frozenset():
            return None, False
        what = "DeviceClasses"
        try:
            classes = self._api.first_page(kinds.DEVICE_CLASSES, MOST_CLASSES, what="list DeviceClasses")
            answer = await self._answer(what, classes)
            if answer is None:
                return None, False
            claimed, has_hami_dra = claimed_resources(answer)
        except NotServed:  # as before Kubernetes 1.34
            claimed, has_hami_dra = frozenset[str](), False
        except FormatError as error:
            self._say(what, str(error))
            return None, False
        served = " and ".join(sorted(map(printable, claimed)))
        said = f"DeviceClasses serve {served}: pods that request it get resource claims" if served else ""
        self._say(what, said, otherwise="they serve no extended resource")
        return claimed, has_hami_dra

    async def _answer(self, what: str, question: Awaitable[Reply]) -> bytes | None:
        """Return the answer of the API server; ``None`` if it refuses, or its answer is too long.

        Raises:
            ApiServerAway: the API server does not answer.
            NotServed: the API server does not serve objects of this kind.
        """
        try:
            return (await question).document
        except NotServed:
            raise
        except (ApiRefused, AnswerTooLong) as error:
            self.errors[VERSIONS, error.kind] += 1
            self._say(what, str(error))
            return None

    def _version(self, what: str, answer: bytes | None, read: Callable[[bytes], Version]) -> Version | None:
        if answer is None:
            return None
        try:
            version = read(answer)
        except FormatError as error:
            self._say(what, str(error))
            return None
        self._say(what, f"{what} is {version}")
        return version

    def _say_who_binds_claims(self) -> None:
        """Log a text if claims are enabled and the Bindings of kube-scheduler do not reach the webhook.

        kube-scheduler binds pods with claims, unless another scheduler allocates their claims. So it is not counted
        with HAMi's schedulers, which are known to bind pods with GPUs.
        """
        if not self._claims_enabled or not self._schedulers:
            return
        said = f"Bindings by {_KUBE_SCHEDULER} do not reach the webhook, and claims are enabled: add it to "
        said += "claims.schedulers of the chart, unless another scheduler that is named there allocates claims"
        self._say("Bindings of pods with claims", "" if _KUBE_SCHEDULER in self._schedulers else said)

    def _compare_schedulers(self, answer: bytes | None) -> None:
        """Find the accounts of HAMi's schedulers whose Bindings do not reach the webhook, and log them."""
        self._unmatched = None
        if answer is None or not self._schedulers:
            return
        what, advice = "Bindings of HAMi's schedulers", "add them to admission.bindings.schedulers of the chart"
        try:
            self._unmatched = scheduler_accounts(answer) - self._schedulers
        except FormatError as error:
            self._say(what, str(error))
            return
        accounts = " and ".join(sorted(self._unmatched))
        said = f"Bindings by {accounts} do not reach the webhook: {advice}" if accounts else ""
        self._say(what, said, otherwise="no account is known whose Bindings do not reach the webhook")

    def _say(self, what: str, text: str, *, otherwise: str = "known again") -> None:
        """Log ``text``, or ``otherwise`` if it is empty, unless it is the last text about ``what``."""
        if text != self._said.get(what, ""):
            self._said[what] = text
            self._tell(text or f"{what}: {otherwise}")

    def _tell(self, text: str) -> None:
        """Log a text about the state."""
        self._log.say("info", "state", text=text)

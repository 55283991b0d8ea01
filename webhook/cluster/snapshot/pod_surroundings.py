"""The surroundings of single pods, read by the few gets that ``explain``, ``bind`` and ``inject`` may send.

Unreadable objects are left out, with a note. The snapshot has the reason for each gap.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import msgspec

from webhook.cluster.api.api_server import ApiServer, connect_objects
from webhook.cluster.api.contexts import Where
from webhook.cluster.api.errors import AnswerTooLong, ApiRefused, ApiServerAway, Denied, NotFound
from webhook.cluster.redaction.objects import RUNTIME_CLASS, Object, identity
from webhook.cluster.redaction.parts import part
from webhook.cluster.snapshot.lists import Found, about_cluster
from webhook.cluster.snapshot.model import KnownPod, Scope, Setting, Snapshot, pods_of, read_snapshot
from webhook.cluster.state.topology_objects import is_owned_by
from webhook.decisions.claims.pod import MOST_CLAIMS, claim_names
from webhook.decisions.configuration import ClaimSettings
from webhook.decisions.detection import hami_version
from webhook.decisions.request.assigned_node import node_of
from webhook.objects.claims import CLAIM, SLICE, TEMPLATE, VERSION, decode_claim
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Pod, PodSpec
from webhook.objects.webhook_registration import CONFIGURATION, namespace_of
from webhook.words import names
from webhook.words.catalogue.rights import READER_MISSING
from webhook.words.errors import FormatError, GpuTopologyError
from webhook.words.node_names import node_label
from webhook.words.printable import printable
from webhook.words.version import Version

NO_ANSWER = "the API server gave no answer"

_T = TypeVar("_T")


class Around:
    """The objects around pods, each read when a pod needs it first.

    Args:
        api: The API server.
        runner: The runner that waits for answers.
        setting: The facts beside the cluster.
        tell: A function that takes notes about gaps.
    """

    def __init__(self, api: ApiServer, runner: asyncio.Runner, setting: Setting, tell: Callable[[str], None]) -> None:
        self.api = api
        self._runner, self.tell = runner, tell
        self._setting = msgspec.structs.replace(setting, scope=Scope.POD)
        self._found, self._kubernetes = Found(), ""
        self._asked: set[tuple[str, ...]] = set()
        self._snapshot: Snapshot | None = None
        self._has_answered = False

    def ask(self, answer: Awaitable[_T]) -> _T:
        """Wait for an answer.

        Raises:
            ApiError: the request failed.
        """

        async def wait() -> _T:
            return await answer

        try:
            found = self._runner.run(wait())
        except (ApiRefused, AnswerTooLong):
            self._has_answered = True
            raise
        self._has_answered = True
        return found

    def add_pod(self, document: Object) -> KnownPod:
        """Add a pod to the snapshot.

        Raises:
            ManifestError: a field has another type than in a pod, or a text is invalid.
        """
        self._add("v1", "Pod", [document])
        return self._found.documents.pods[-1]

    def look(self, known: KnownPod, *, node: str = "", with_claims: bool = False) -> None:
        """Read the surroundings of one pod, without the other pods of its group.

        Args:
            known: The pod.
            node: The node of the pod; empty: the node that the pod names.
            with_claims: True if its resource claims are read.
        """
        pod, namespace = known.pod, known.namespace
        self.look_at_namespace(namespace)
        self._look_at_schedulers()
        # A pod that has a node shows in its own status and annotations whether claims served it.
        self.look_at_versions(with_claims=not (pod.spec and pod.spec.node_name))
        if pod.spec and pod.spec.runtime_class_name:
            self._look_at_runtime_class(pod.spec.runtime_class_name)
        self._look_at_registration()
        if _may_wait(pod):
            self.look_at_planner()
        where = node or node_of(pod)
        if where:
            self.look_at_node(where)
        if with_claims:
            self.look_at_claims(pod, namespace, where)

    def snapshot(self) -> Snapshot:
        """Return the cluster, as far as it was read."""
        if self._snapshot is None:
            found = self._found
            about = about_cluster(datetime.now(UTC), found.read, found.unread, self._kubernetes)
            self._snapshot = read_snapshot([*found.documents.others, about], found.documents.pods, self._setting)
        return self._snapshot

    def tell_missing_role(self) -> None:
        """Tell which role allows what was denied, after the notes about that."""
        if any(each.get("denied") for each in self._found.unread):
            self.tell(f"gpu-topology: {READER_MISSING.say().advice}")

    def look_at_namespace(self, name: str) -> None:
        """Read a namespace."""
        if self._is_new("Namespace", name):
            self._one("namespaces", "v1", "Namespace", lambda: self.api.namespace(name))

    def _look_at_schedulers(self) -> None:
        """Read the Deployments of HAMi's schedulers."""
        if self._is_new("Deployment"):
            found = self._many("deployments", "apps/v1", "Deployment", self.api.hami_schedulers, otherwise=NO_ANSWER)
            self._note(lambda: hami_version(msgspec.json.encode({"items": found})) if found else None)

    def look_at_versions(self, *, with_claims: bool) -> None:
        """Read the versions of Kubernetes and HAMi, and the resources that claims serve."""
        self._look_at_schedulers()
        if self._is_new("version"):
            said = self._attempt("the version of Kubernetes", self.api.version)
            if said is not None:
                self._note(lambda: Version.parse(said, source="the version of the API server"))
            self._kubernetes = said or ""
        if with_claims and self._is_new("DeviceClass"):
            self._many("deviceclasses", VERSION, "DeviceClass", self.api.device_classes)
        if configured := self._setting.policy.remap.runtime_class_name:
            self._look_at_runtime_class(configured)

    def _look_at_runtime_class(self, name: str) -> None:
        """Read a RuntimeClass. That a missing one was looked for is noted in what was read."""
        if not self._is_new(RUNTIME_CLASS, name):
            return
        self._one("runtimeclasses", "node.k8s.io/v1", RUNTIME_CLASS, lambda: self.api.runtime_class(name), NO_ANSWER)
        if not self._is_unread("runtimeclasses"):
            self._found.read.append(f"{RUNTIME_CLASS} {name}")

    def _look_at_registration(self) -> None:
        """Read the registration of the webhook."""
        name = self._setting.registration

        if self._is_new(CONFIGURATION, name):
            self._one(
                "mutatingwebhookconfigurations",
                "admissionregistration.k8s.io/v1",
                CONFIGURATION,
                lambda: self.api.mutating_webhooks(name),
                otherwise=NO_ANSWER,
            )

    def look_at_planner(self) -> None:
        """Read the planner's Lease, in the namespace that the registration names."""
        self._look_at_registration()
        if not self._is_new(names.PLANNER_LEASE):
            return
        try:
            namespace = next(map(namespace_of, self._kind(CONFIGURATION)), "")
        except FormatError:
            namespace = ""
        if namespace:
            self._lease(namespace, names.PLANNER_LEASE, what=names.PLANNER_LEASE, otherwise=NO_ANSWER)

    def look_at_pods(self, namespace: str, label: str, value: str) -> None:
        """Read the pods with a label."""
        if not self._is_new("Pod", namespace, label, value):
            return
        what = pods_of(label, value)
        found = self._attempt(what, lambda: self.api.pods(namespace, label=f"{label}={value}"))
        if found is not None:
            self._found.read.append(what)
        self._add("v1", "Pod", found or ())

    def look_at_node(self, name: str, *, must_be_read: bool = False, with_age: bool = True) -> None:
        """Read a node, and the ConfigMap of its agent.

        Args:
            name: The name of the node.
            must_be_read: True if an unreadable node is an error, and not only a note.
            with_age: True if the Lease of the agent is read too, which shows the age.

        Raises:
            GpuTopologyError: the node must be read, and cannot be.
        """
        if not self._is_new("Node", name):
            return
        if must_be_read:
            self._add("v1", "Node", [self.ask(self._node_if_there(name))])
        else:
            self._one("nodes", "v1", "Node", lambda: self._node_if_there(name))
        label = f"{names.NODE}={node_label(name)}"
        said = self._attempt("configmaps", lambda: self.api.config_maps(label=label))
        published = self._believed(name, said or [])
        self._add("v1", "ConfigMap", published)
        for namespace, lease in map(identity, published if with_age else ()):
            self._lease(namespace, lease, what="leases")

    def _believed(self, node: str, config_maps: list[Object]) -> list[Object]:
        """Choose the one ConfigMap that counts. Tenants may make any number of them with the label of a node.

        Only a ConfigMap that the Node owns, by its uid, is trusted if the uid may be read.
        """
        uid = next(
            (part(each, "metadata").get("uid") for each in self._kind("Node") if identity(each)[1] == node), None
        )
        found = [each for each in config_maps if is_owned_by(each, uid)] if uid else config_maps
        if len(found) > 1:
            self.tell(f"gpu-topology: {len(found)} ConfigMaps say that they are of node {node}; the first is taken")
        return found[:1]

    async def _node_if_there(self, name: str) -> Object:
        try:
            return await self.api.node(name)
        except NotFound as error:
            raise NotFound(f"there is no node {name} in this cluster", status=error.status) from None

    def look_at_claims(self, pod: Pod, namespace: str, node: str) -> None:
        """Read the claims of a pod, the templates of claims that are not made yet, and the slices of its node.

        Args:
            pod: The pod.
            namespace: Its namespace.
            node: The node of the pod; empty if it is open, and then no slices are read.
        """
        named = claim_names(pod)
        self._look_at_named(CLAIM, named.by_entry.values(), namespace, self.api.resource_claim)
        claims = [each for each in self._kind(CLAIM) if identity(each)[1] in named.by_entry.values()]
        there = {identity(each)[1] for each in claims}
        missing = [name for entry, name in named.templates.items() if named.by_entry.get(entry) not in there]
        self._look_at_named(TEMPLATE, missing, namespace, self.api.resource_claim_template)
        if not node or not _have_gpus(claims, self._setting.policy.claims):
            self._found.read.append(SLICE)  # no device is looked up, so none is missing
        elif self._is_new(SLICE, node):
            self._many("resourceslices", VERSION, SLICE, lambda: self.api.resource_slices(node=node), NO_ANSWER)

    def _look_at_named(
        self, kind: str, wanted: Iterable[str], namespace: str, ask: Callable[[str, str], Awaitable[Object | None]]
    ) -> None:
        """Read the objects of these names that exist and can be read."""
        resource = f"{kind.lower()}s"
        for name in list(dict.fromkeys(wanted))[:MOST_CLAIMS]:
            if self._is_new(kind, namespace, name):
                self._one(resource, VERSION, kind, partial(ask, namespace, name), NO_ANSWER)
        if not self._is_unread(resource):
            self._found.read.append(kind)

    def _lease(self, namespace: str, name: str, *, what: str, otherwise: str = "") -> None:
        """Read a Lease. A missing one counts as read."""
        self._one(what, "coordination.k8s.io/v1", "Lease", lambda: self.api.lease(namespace, name), otherwise)
        if not self._is_unread(what):
            self._found.read.append("Lease" if what == "leases" else what)

    def _is_unread(self, what: str) -> bool:
        return any(each["what"] == what for each in self._found.unread)

    def _is_new(self, *what: str) -> bool:
        """Return whether the object is requested for the first time, and note the request."""
        is_new = what not in self._asked
        self._asked.add(what)
        return is_new

    def _one(
        self, what: str, version: str, kind: str, ask: Callable[[], Awaitable[Object | None]], otherwise: str = ""
    ) -> None:
        found = self._attempt(what, ask, otherwise)
        self._add(version, kind, [found] if found else ())

    def _many(
        self, what: str, version: str, kind: str, ask: Callable[[], Awaitable[list[Object]]], otherwise: str = ""
    ) -> list[Object]:
        found = self._attempt(what, ask, otherwise)
        if found is not None:
            self._found.read.append(kind)
        self._add(version, kind, found or ())
        return found or []

    def _attempt(self, what: str, ask: Callable[[], Awaitable[_T]], otherwise: str = "") -> _T | None:
        """Return the answer; None after a failure, which is noted with the API server's refusal or ``otherwise``.

        Raises:
            ApiServerAway: the API server has not answered a single request. Then everything would be left out.
        """
        try:
            return self.ask(ask())
        except GpuTopologyError as error:
            if isinstance(error, ApiServerAway) and not self._has_answered:
                raise
            said = printable(str(error))
            self.tell(f"gpu-topology: left out: {said}")
            is_refused = isinstance(error, ApiRefused) and not isinstance(error, NotFound)
            if is_refused or otherwise:
                self._found.leave_out(what, said if is_refused else otherwise, is_denied=isinstance(error, Denied))
            return None

    def _note(self, read: Callable[[], object]) -> None:
        """Check an answer that was read, and note what it does not tell."""
        try:
            read()
        except GpuTopologyError as error:
            self.tell(f"gpu-topology: left out: {printable(str(error))}")

    def _add(self, version: str, kind: str, documents: Iterable[Object]) -> None:
        header = {"apiVersion": version, "kind": kind}
        self._found.documents.add((each | header for each in documents), were_kept=True)
        self._snapshot = None

    def _kind(self, kind: str) -> Iterator[Object]:
        return (each for each in self._found.documents.others if each["kind"] == kind)


@contextmanager
def around(where: Where, setting: Setting, tell: Callable[[str], None]) -> Iterator[Around]:
    """Open the surroundings of pods in a cluster, until the end of the block. Missing rights are told with the role.

    Args:
        where: The cluster.
        setting: The facts beside the cluster.
        tell: A function that takes notes about gaps.

    Raises:
        GpuTopologyError: the kubeconfig cannot be used, or the block needs what the caller may not read.
    """
    api = connect_objects(where, user_agent=names.EXPLAIN_USER_AGENT)
    with asyncio.Runner() as runner:
        cluster = Around(api, runner, setting, tell)
        try:
            yield cluster
            cluster.tell_missing_role()
        except Denied as error:
            raise GpuTopologyError(f"{error}. {READER_MISSING.fix}") from None
        finally:
            runner.run(api.close())


def _have_gpus(claims: Iterable[Object], settings: ClaimSettings) -> bool:
    """Return whether some claim was allocated GPUs."""
    for claim in claims:
        try:
            allocation = decode_claim(to_json(claim, CLAIM), CLAIM).allocation
        except FormatError:
            continue
        if any(settings.driver(result.driver) for result in (allocation.results if allocation else None) or ()):
            return True
    return False


def _may_wait(pod: Pod) -> bool:
    """Return whether the pod may depend on a planner: it has no node, and the webhook has prepared it."""
    spec = pod.spec or PodSpec()
    is_ours = names.INJECTED in pod.annotations or names.PLACEMENT in pod.labels
    return not spec.node_name and (is_ours or names.PLACE_GATE in spec.scheduling_gates)

"""The present documents of a cluster, read with few requests."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote

import msgspec

from webhook.cluster.api import api_server, resources
from webhook.cluster.api.contexts import Where
from webhook.cluster.api.errors import ApiError, ApiRefused, Denied, NotFound
from webhook.cluster.api.pages import pages
from webhook.cluster.api.session import Session, connect
from webhook.cluster.api.status import Answer, failure
from webhook.cluster.redaction.objects import SNAPSHOT, Object, identity
from webhook.cluster.snapshot.documents import Documents
from webhook.cluster.snapshot.installation import ENDPOINTS, PROGRAMS
from webhook.decisions.configuration import CertificateSettings
from webhook.objects.claims import CLAIM, SLICE, TEMPLATE, VERSION
from webhook.objects.webhook_registration import CONFIGURATION, service_of
from webhook.words import names
from webhook.words.catalogue.rights import READER_MISSING
from webhook.words.errors import FormatError, GpuTopologyError, NoNamespace
from webhook.words.nesting import decode_answer

OF_THE_WEBHOOK = ("Lease", ENDPOINTS, "Secret")
"""The kinds that are read in the namespace of the webhook alone."""
_PAGE_OBJECTS = 500
_ANY = msgspec.json.Decoder()
_ANSWER_BYTES = 16 * 1024 * 1024
_NO_SUCH_PATH = 404


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of objects of one kind."""

    kind: str
    version: str
    path: str
    query: str = ""
    has_namespaces: bool = False
    part: str = ""
    """The selected part of the objects of the kind, where they are several lists."""

    @property
    def name(self) -> str:
        """The name among what was read."""
        return f"{self.kind} {self.part}" if self.part else self.kind

    @property
    def resource(self) -> str:
        """The name in a role."""
        return self.path.rpartition("/")[2]


_PROGRAMS = "labelSelector=" + quote("=".join(names.PROGRAM_LABEL), safe="")
_SCHEDULER = "labelSelector=" + quote("=".join(names.HAMI_SCHEDULER_LABEL), safe="")
EVERYWHERE = (
    Listed("Node", "v1", "/api/v1/nodes"),
    Listed("ConfigMap", "v1", resources.ALL_CONFIG_MAPS.path, resources.ALL_CONFIG_MAPS.query, True),
    Listed("Lease", "coordination.k8s.io/v1", resources.ALL_LEASES.path, resources.ALL_LEASES.query, True),
    Listed("Deployment", "apps/v1", "/apis/apps/v1/deployments", _SCHEDULER, True),
    Listed("Deployment", "apps/v1", "/apis/apps/v1/deployments", _PROGRAMS, True, PROGRAMS),
    Listed("DaemonSet", "apps/v1", "/apis/apps/v1/daemonsets", _PROGRAMS, True),
    Listed(
        CONFIGURATION,
        "admissionregistration.k8s.io/v1",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    ),
    Listed("DeviceClass", "resource.k8s.io/v1", "/apis/resource.k8s.io/v1/deviceclasses"),
)
_FAILED_CREATE = "fieldSelector=reason%3DFailedCreate"
_CLAIMS_API = "/apis/resource.k8s.io/v1"
NAMESPACES = Listed("Namespace", "v1", "/api/v1/namespaces")


class PodsForbidden(GpuTopologyError):
    """A missing permission to list pods; the text says what to do.

    Args:
        problem: The message of the API server.
        remedy: The advice.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}. {remedy}")
        self.problem = problem


@dataclass(slots=True)
class Found:
    """The documents that were read so far, and the gaps."""

    documents: Documents = field(default_factory=Documents)
    read: list[str] = field(default_factory=list)
    unread: list[Object] = field(default_factory=list)

    def leave_out(self, what: str, problem: object, *, is_denied: bool = False) -> None:
        """Note that something could not be read.

        Args:
            what: The missing part.
            problem: The reason: a text, or the error itself, which shows whether a right is missing.
            is_denied: True if a text is about a missing right.
        """
        denied: Object = {"denied": True} if is_denied or isinstance(problem, Denied) else {}
        if any((each["what"], each["problem"]) == (what, str(problem)) for each in self.unread):
            return  # two lists of one kind
        self.unread.append({"what": what, "problem": str(problem)} | denied)


def read_cluster(
    kubeconfig: Where,
    namespace: str | None,
    certificates: CertificateSettings,
    *,
    kinds: Collection[str] | None = None,
) -> Documents:
    """Read the present objects of a cluster, reduced to the kept fields.

    Unreadable objects other than pods are left out, and listed in the document of kind ``ClusterSnapshot``.

    Args:
        kubeconfig: The cluster.
        namespace: The namespace of the pods; None for all namespaces.
        certificates: The names of the webhook's registration and Secret.
        kinds: The kinds to read beside the pods; None for everything that is judged.

    Raises:
        GpuTopologyError: a request fails, pods may not be listed, or there is no such namespace.
    """
    session = connect(kubeconfig, user_agent=names.ANALYZE_USER_AGENT, seconds=api_server.SECONDS)
    return asyncio.run(_read(session, namespace, certificates, kinds))


async def _read(
    session: Session, namespace: str | None, certificates: CertificateSettings, kinds: Collection[str] | None
) -> Documents:
    found = Found()
    try:
        kubernetes, at = await version_of(session, found)
        if kinds is None:
            await _namespaces(session, namespace, found)
        await _pods(session, namespace, found)
        for listed in (*EVERYWHERE, *of_namespace(namespace)):
            if kinds is None or listed.name in kinds:
                await _wanted(session, listed, found)
        if kinds is None:
            await of_the_webhook(session, certificates, found.documents.others, found)
    finally:
        await session.close()
    found.documents.add([about_cluster(at, found.read, found.unread, kubernetes)])
    return found.documents


def about_cluster(at: datetime, read: Iterable[str], unread: Iterable[Object], kubernetes: str) -> Object:
    """Return the document of kind ``ClusterSnapshot``.

    Args:
        at: The time of the state.
        read: The kinds that were read completely.
        unread: The gaps: :meth:`Found.leave_out`.
        kubernetes: The version of Kubernetes; empty if it is not known.
    """
    about: Object = {"apiVersion": f"{names.PREFIX}v1", "kind": SNAPSHOT, "metadata": {"name": "cluster"}}
    about |= {"at": at.isoformat(), "read": sorted(read), "unread": list(unread)}
    return about | ({"kubernetes": kubernetes} if kubernetes else {})


async def _namespaces(session: Session, namespace: str | None, found: Found) -> None:
    if namespace is None:
        await _wanted(session, NAMESPACES, found)
        return
    try:
        document = await _get(session, f"get namespace {namespace}", f"/api/v1/namespaces/{quote(namespace, safe='')}")
    except NotFound:
        raise NoNamespace(namespace) from None
    except ApiRefused as error:
        found.leave_out("namespaces", error)
        return
    found.documents.add([document | {"apiVersion": "v1", "kind": "Namespace"}])


async def _pods(session: Session, namespace: str | None, found: Found) -> None:
    """Read the pods that have not ended."""
    path = resources.PODS.path if namespace is None else f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    try:
        await _list(session, Listed("Pod", "v1", path, resources.PODS.query), found)
    except Denied as error:
        raise PodsForbidden(str(error), permission_to_list_pods(namespace)) from None
    except ApiError as error:
        raise GpuTopologyError(str(error)) from None


def permission_to_list_pods(namespace: str | None) -> str:
    """Return the advice for a caller who may not list pods.

    Args:
        namespace: The requested namespace; None for all.
    """
    where = f" in namespace {namespace}" if namespace else ". With -n NAMESPACE those of one namespace are enough"
    return f"Have the permission to list pods{where}. {READER_MISSING.fix}"


def of_namespace(namespace: str | None) -> tuple[Listed, ...]:
    """Return the lists of Events about pods that could not be created, claims and templates in a namespace.

    ResourceSlices, which have no namespace, are among them too. None: the lists of all namespaces.
    """
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace is not None else ""
    return (
        Listed("Event", "v1", f"/api/v1{place}/events", _FAILED_CREATE, has_namespaces=True),
        Listed(CLAIM, VERSION, f"{_CLAIMS_API}{place}/resourceclaims", has_namespaces=True),
        Listed(TEMPLATE, VERSION, f"{_CLAIMS_API}{place}/resourceclaimtemplates", has_namespaces=True),
        Listed(SLICE, VERSION, f"{_CLAIMS_API}/resourceslices"),
    )


async def _wanted(session: Session, collection: Listed, found: Found) -> None:
    try:
        await _list(session, collection, found)
    except ApiRefused as error:
        if error.status != _NO_SUCH_PATH:  # a kind that this version of Kubernetes does not have
            found.leave_out(collection.resource, error)
            return
    found.read.append(collection.name)


async def _list(session: Session, collection: Listed, found: Found) -> None:
    what, path = f"list {collection.resource}", f"{collection.path}?{collection.query}"
    header = {"apiVersion": collection.version, "kind": collection.kind}
    async for page in pages(session, what, path, objects=_PAGE_OBJECTS):
        found.documents.add(header | item for item in _objects(page.items))


def _objects(items: list[msgspec.Raw]) -> Iterator[Object]:
    for item in items:
        document = decode_answer(_ANY, item)
        if isinstance(document, dict):
            yield {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}


async def of_the_webhook(
    session: Session,
    certificates: CertificateSettings,
    documents: Sequence[Object],
    found: Found,
    *,
    kinds: Sequence[str] = OF_THE_WEBHOOK,
) -> None:
    """Read the planner's Lease, the endpoints of the webhook and the certificates in its Secret, in its namespace.

    Args:
        session: The connection to the API server.
        certificates: The names of the Secret and of the registration, which has the namespace.
        documents: Documents with the registration among them.
        found: The receiver of the documents.
        kinds: The kinds to read.
    """
    namespace, service = _service(documents, certificates.webhook_configuration)
    if not namespace:
        return
    if ENDPOINTS in kinds:
        await _wanted(session, _endpoints(namespace, service), found)
    for kind, resource, name in (
        ("Lease", "leases", names.PLANNER_LEASE),
        ("Secret", "secrets", certificates.secret),
    ):
        if kind not in kinds:
            continue
        version = "coordination.k8s.io/v1" if kind == "Lease" else "v1"
        root = "/apis/coordination.k8s.io/v1" if kind == "Lease" else "/api/v1"
        path = f"{root}/namespaces/{quote(namespace, safe='')}/{resource}/{quote(name, safe='')}"
        try:
            with suppress(NotFound):
                document = await _get(session, f"get {kind} {namespace}/{name}", path)
                found.documents.add([document | {"apiVersion": version, "kind": kind}])
            found.read.append(name)
        except ApiRefused as error:
            found.leave_out(resource, error)


def _endpoints(namespace: str, service: str) -> Listed:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{quote(namespace, safe='')}/endpointslices"
    selector = "labelSelector=" + quote(f"{names.SERVICE_LABEL}={service}", safe="")
    return Listed(ENDPOINTS, "discovery.k8s.io/v1", path, selector, has_namespaces=True)


def _service(documents: Sequence[Object], name: str) -> tuple[str, str]:
    ours = (each for each in documents if each["kind"] == CONFIGURATION and identity(each)[1] == name)
    with suppress(FormatError):
        return next((service_of(each) for each in ours), ("", ""))
    return "", ""


async def version_of(session: Session, found: Found) -> tuple[str, datetime]:
    """Read the version of Kubernetes, and the time of the API server, because the clock here may be wrong.

    Args:
        session: The connection to the API server.
        found: The receiver of the gaps.
    """
    try:
        answer = await _ask(session, "get the version", "/version")
    except ApiRefused as error:
        found.leave_out("the version of Kubernetes", error)
        return "", datetime.now(UTC)
    version = _object(answer).get("gitVersion")
    return version if isinstance(version, str) else "", _date(answer)


def _date(answer: Answer) -> datetime:
    try:
        said = parsedate_to_datetime(answer.headers.get("Date", ""))
    except (TypeError, ValueError):
        return datetime.now(UTC)
    return said if said.tzinfo else said.replace(tzinfo=UTC)


async def _get(session: Session, what: str, path: str) -> Object:
    return _object(await _ask(session, what, path))


async def _ask(session: Session, what: str, path: str) -> Answer:
    answer = await session.get(what, path, limit=_ANSWER_BYTES)
    if answer.status != 200:
        raise failure(what, answer)
    return answer


def _object(answer: Answer) -> Object:
    try:
        found = decode_answer(_ANY, answer.body)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}

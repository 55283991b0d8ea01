"""One object as it is at this moment: a GET that names no resourceVersion, so that no cache answers it."""

from webhook.kube.errors import ApiError, ApiServerAway, Malformed, NotFound
from webhook.kube.session import JSON, Session
from webhook.kube.status import failure
from webhook.model.object_names import OBJECT

OBJECT_BYTES = 4 * 1024 * 1024
"""More than an object may have: etcd refuses requests above 1.5 MiB (etcd server/embed/config.go)."""

_LATER = "The scheduler tries again"
_UNKNOWN = "The API server does not know the webhook: its token has ended or is another cluster's"


async def get_namespaced(
    session: Session, kind: str, api: str, namespace: str, name: str, *, deadline: float | None
) -> bytes | None:
    """The object of a namespace as JSON, or ``None`` if there is none of that name.

    Args:
        session: To the API server.
        kind: Of the object, in small letters.
        api: The path of its group and version.
        namespace: Of the object.
        name: Of the object.
        deadline: Until when, on the clock of the event loop; ``None``: as long as the session says.

    Raises:
        ApiError: no answer in time, or none that an object can be taken from.
    """
    if not OBJECT.fullmatch(namespace) or not OBJECT.fullmatch(name):
        return None
    what = f"get {kind} {namespace}/{name}"
    document = await get_object(session, what, f"{api}/namespaces/{namespace}/{kind}s/{name}", deadline=deadline)
    if document is not None and not document.startswith(b"{"):
        raise Malformed(f"{what}: expected a {kind}, found something else")
    return document


async def get_object(
    session: Session, what: str, path: str, *, deadline: float | None = None, accept: str = JSON
) -> bytes | None:
    """What the API server has at a path, or ``None`` if there is no object of that name.

    Args:
        session: To the API server.
        what: What is asked for; errors begin with it.
        path: Of names that are checked.
        deadline: Until when, on the clock of the event loop; ``None``: as long as the session says.
        accept: In which form.

    Raises:
        ApiError: no answer in time, or a refusal.
    """
    try:
        answer = await session.get(what, path, limit=OBJECT_BYTES, accept=accept, deadline=deadline)
        if answer.status != 200:
            raise failure(what, answer)
    except NotFound:
        return None
    return answer.body


def with_fix(error: ApiError, session: Session, *, missing_role: str) -> str:
    """The error's text with what to do about it.

    Args:
        error: Of a request.
        session: Over which it was sent.
        missing_role: What to do about a role that is missing.
    """
    fixes = {401: _UNKNOWN, 403: missing_role}
    fix = fixes.get(error.status, _LATER if isinstance(error, ApiServerAway) else "")
    if error.status == 401 and session.problem:
        fix = f"{fix}. It could not be renewed: {session.problem}"
    return f"{error}" + (f". {fix}" if fix else "")

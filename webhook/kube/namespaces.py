"""A namespace as it is at this moment, for when the mirror may be a moment behind."""

from webhook.kube.errors import ApiError
from webhook.kube.live import get_object
from webhook.kube.resources import NAMESPACES
from webhook.kube.session import Session
from webhook.kube.versioned import VersionedObject, read_versioned
from webhook.model.errors import StateUnknown
from webhook.model.object_names import NAMESPACE


class LiveNamespaces:
    """Reads one with one GET."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def get(self, name: str) -> VersionedObject | None:
        """The namespace; ``None`` if there is none of that name.

        Raises:
            StateUnknown: the API server does not say.
        """
        if not NAMESPACE.fullmatch(name):
            return None
        what, path = f"get namespace {name}", f"{NAMESPACES.path}/{name}"
        try:
            document = await get_object(self._session, what, path, accept=NAMESPACES.watch_form)
            return None if document is None else read_versioned(document)
        except ApiError as error:
            raise StateUnknown(str(error)) from None
        except ValueError as error:
            raise StateUnknown(f"{what}: expected a namespace, found none: {error}") from None

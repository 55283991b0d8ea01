"""A namespace as it is at this moment, for when the mirror may be a moment behind."""

import re
from contextlib import suppress

from webhook.kube.errors import ApiServerAway
from webhook.kube.resources import NAMESPACES
from webhook.kube.seen import Seen, read_seen
from webhook.kube.session import Session
from webhook.kube.status import is_missing, words
from webhook.model.errors import StateUnknown

NAMESPACE_BYTES = 4 * 1024 * 1024
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""k8s.io/apimachinery, pkg/util/validation: IsDNS1123Label. Such a name stays within its path."""


class LiveNamespaces:
    """Reads one with one GET."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def get(self, name: str) -> Seen | None:
        """The namespace; ``None`` if there is none of that name.

        Raises:
            StateUnknown: the API server does not say.
        """
        if not _NAME.fullmatch(name):
            return None
        what, path = f"get namespace {name}", f"{NAMESPACES.path}/{name}"
        try:
            answer = await self._session.get(what, path, limit=NAMESPACE_BYTES, accept=NAMESPACES.watch_form)
        except ApiServerAway as error:
            raise StateUnknown(str(error)) from None
        if is_missing("namespaces", answer):
            return None
        with suppress(ValueError):  # what is no object says so itself
            if answer.status == 200:
                return read_seen(answer.body)
        raise StateUnknown(f"{what}: {words(answer)}")

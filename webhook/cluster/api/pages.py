"""Pages of a list by its path, for the command line: :meth:`webhook.cluster.api.verbs.Api.pages`."""

from collections.abc import AsyncGenerator

from webhook.cluster.api.session import Session
from webhook.cluster.api.verbs import Api, Page, Paging
from webhook.cluster.kinds import Collection


def pages(session: Session, what: str, path: str, *, objects: int = Paging().objects) -> AsyncGenerator[Page, None]:
    """Yield all objects of a list; ``path`` is that of the collection, with a query."""
    place, _, query = path.partition("?")
    return Api(session).pages(Collection("", place, query), Paging(objects), what=what)

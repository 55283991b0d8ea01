"""Pages of a list by its path, as the command line still asks for them: :meth:`webhook.cluster.api.verbs.Api.pages`."""

from collections.abc import AsyncGenerator

from webhook.cluster.api.session import Session
from webhook.cluster.api.verbs import Api, Page, Paging
from webhook.cluster.kinds import Collection


def pages(session: Session, what: str, path: str, *, objects: int = Paging().objects) -> AsyncGenerator[Page, None]:
    """All objects of a list; ``path`` is that of the collection, with a query."""
    place, _, query = path.partition("?")
    return Api(session).pages(Collection("", place, query), Paging(objects), what=what)

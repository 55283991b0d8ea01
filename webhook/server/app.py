"""The application: reviews in front, FastAPI behind. No state outside of what is passed in."""

from collections.abc import Callable

from webhook.config import AdmitPolicy, Config
from webhook.server.asgi import Application, Receive, Scope, Send
from webhook.server.log import AdmissionLog
from webhook.server.reviews import Reviews
from webhook.state import State


class LateApplication:
    """An application that is made when its first request comes.

    Loading FastAPI takes half of the start and reviews need none of it. The first request to need it is a probe, and no
    review comes before a probe has said that the server is ready.
    """

    def __init__(self, create: Callable[[], Application]) -> None:
        self._create = create
        self._application: Application | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        if self._application is None:
            self._application = self._create()
        await self._application(scope, receive, send)


def create_app(config: Config, policy: AdmitPolicy, state: State, log: AdmissionLog) -> Reviews:
    """The application behind HTTPS: ``POST /mutate/pods``, and FastAPI for everything else."""
    limit = config.server.max_review_bytes
    return Reviews(LateApplication(_reviews_app), state=state, policy=policy, log=log, max_review_bytes=limit)


def create_ops_app(ready: Callable[[], str]) -> LateApplication:
    """The plain application of probes; ``ready`` says why the server is not ready, or nothing when it is."""

    def create() -> Application:
        from webhook.server import http  # noqa: PLC0415 - see LateApplication

        return http.create_ops_app(ready)

    return LateApplication(create)


def _reviews_app() -> Application:
    from webhook.server import http  # noqa: PLC0415 - see LateApplication

    return http.create_reviews_app()

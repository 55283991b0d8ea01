"""The application of the HTTPS port: reviews in front, FastAPI behind. All state is passed in."""

from collections.abc import Callable

from webhook.cluster.state import Claims, Pods, State
from webhook.decisions.configuration import AdmitPolicy, Config
from webhook.objects.envelope import BINDINGS_PATH, PODS_PATH
from webhook.programs.http.asgi import Application, Receive, Scope, Send
from webhook.programs.server.bindings import BindingReviews
from webhook.programs.server.counts import Counts
from webhook.programs.server.events import Events
from webhook.programs.server.log import ReviewLog
from webhook.programs.server.pods import PodReviews
from webhook.programs.server.rate_limits import LimitedClaims
from webhook.programs.server.reviews import Reviews


class LateApplication:
    """An application that is made when its first request comes.

    Loading FastAPI takes half of the start, and reviews do not need it. The first request that needs it is a probe, and
    no review comes before a probe has said that the server is ready.
    """

    def __init__(self, create: Callable[[], Application]) -> None:
        self._create = create
        self._application: Application | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        if self._application is None:
            self._application = self._create()
        await self._application(scope, receive, send)


def create_app(  # noqa: PLR0913, PLR0917 - what is known, what it is decided by, and who hears of it
    config: Config,
    policy: AdmitPolicy,
    state: State,
    log: ReviewLog,
    pods: Pods,
    events: Events,
    claims: Claims,
) -> Reviews:
    """Return the application of the HTTPS port: the reviews, and FastAPI for everything else.

    Args:
        config: The configuration, for the limits of the server.
        policy: The configuration of the decisions.
        state: The state of the cluster.
        log: Takes one line for each review.
        pods: Reads pods when they are bound.
        events: Takes Events for the owners of pods.
        claims: Reads claims. Reviews of pods and reviews of Bindings have a limit each, so that the creation of many
            pods does not hold up Bindings.
    """
    counts = Counts(lambda: events.lost)
    pod_reviews = PodReviews(state=state, claims=LimitedClaims(claims), policy=policy, log=log, counts=counts)
    bindings = BindingReviews(
        state=state,
        pods=pods,
        claims=LimitedClaims(claims),
        events=events,
        policy=policy,
        log=log,
        counts=counts,
    )
    return Reviews(
        LateApplication(_reviews_app),
        {PODS_PATH: pod_reviews.answer, BINDINGS_PATH: bindings.answer},
        log=log,
        counts=counts,
        max_review_bytes=config.server.max_review_bytes,
    )


def _reviews_app() -> Application:
    from webhook.programs.server import http  # noqa: PLC0415 - see LateApplication

    return http.create_reviews_app()

"""The FastAPI applications: one for the reviews, one for probes and metrics. All state is passed in."""

from collections.abc import Callable, Mapping

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.routing import Route

from webhook import __version__
from webhook.cluster.state import Claims, Pods, State
from webhook.decisions.configuration import AdmitPolicy, Config
from webhook.objects.envelope import BINDINGS_PATH, PODS_PATH
from webhook.programs.exposition import Exposition
from webhook.programs.http.messages import Bodies
from webhook.programs.server.bindings import BindingReviews
from webhook.programs.server.counts import Counts
from webhook.programs.server.events import Events
from webhook.programs.server.log import ReviewLog
from webhook.programs.server.metrics import families
from webhook.programs.server.pods import PodReviews
from webhook.programs.server.reviews import Answer, Reviews
from webhook.programs.server.vitals import Vitals


def create_app(  # noqa: PLR0913, PLR0917 - what is known, what it is decided by, and who hears of it
    config: Config,
    policy: AdmitPolicy,
    state: State,
    log: ReviewLog,
    counts: Counts,
    pods: Pods,
    events: Events,
    claims: Claims,
) -> FastAPI:
    """Return the application of the reviews.

    Args:
        config: The configuration, for the limits of the server.
        policy: The configuration of the decisions.
        state: The state of the cluster.
        log: Takes one line for each review.
        counts: The counts of the server.
        pods: Reads pods when they are bound.
        events: Takes Events for the owners of pods.
        claims: Reads claims.
    """
    of_pods = PodReviews(state=state, claims=claims, policy=policy, log=log, counts=counts)
    of_bindings = BindingReviews(
        state=state, pods=pods, claims=claims, events=events, policy=policy, log=log, counts=counts
    )
    answers = {PODS_PATH: of_pods.answer, BINDINGS_PATH: of_bindings.answer}
    return reviews_app(answers, log=log, counts=counts, longest_body=config.server.max_review_bytes)


def reviews_app(answers: Mapping[str, Answer], *, log: ReviewLog, counts: Counts, longest_body: int) -> FastAPI:
    """Return an application that answers the reviews at each path with a function."""
    bodies = Bodies(longest_body, "server.maxReviewBytes")
    application = _bare_app()
    application.router.routes += [
        Route(path, Reviews(answer, bodies, log=log, counts=counts)) for path, answer in answers.items()
    ]
    return application


def create_ops_app(
    stalled: Callable[[], str], ready: Callable[[], str], counts: Counts, vitals: Callable[[], Vitals]
) -> FastAPI:
    """Return the application of the port of probes and metrics, which answers in a thread of its own.

    Args:
        stalled: Returns why the server should be replaced; empty when it is alive.
        ready: Returns why the server is not ready; empty when it is.
        counts: The counts of the server, for the metrics.
        vitals: Returns the other values of the metrics, as they are at a scrape.
    """
    application = _bare_app()
    exposition = Exposition(lambda: families(counts, vitals()))

    @application.get("/healthz")
    async def healthz() -> Response:
        reason = stalled()
        return JSONResponse({"status": reason or "ok", "version": __version__}, status_code=503 if reason else 200)

    @application.get("/readyz")
    async def readyz() -> Response:
        reason = ready()
        return JSONResponse({"status": reason or "ready"}, status_code=503 if reason else 200)

    @application.get("/metrics")
    async def metrics(request: Request) -> Response:
        content_type, body = exposition.answer(request.headers.get("accept", ""))
        return Response(body, media_type=content_type)

    return application


def _bare_app() -> FastAPI:
    return FastAPI(
        title="gpu-topology-webhook",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        # Else each request asks OpenTelemetry, which reads the environment, whether there is somebody to tell: 10 us.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )

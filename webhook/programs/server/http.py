"""The FastAPI applications: everything that is not a review."""

from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from webhook import __version__
from webhook.programs.exposition import Exposition
from webhook.programs.server.counts import Counts
from webhook.programs.server.metrics import families
from webhook.programs.server.vitals import Vitals


def create_reviews_app() -> FastAPI:
    """What stands behind the reviews on the HTTPS port: nothing else is there yet."""
    return FastAPI(title="gpu-topology-webhook", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)


def create_ops_app(
    stalled: Callable[[], str], ready: Callable[[], str], counts: Counts, vitals: Callable[[], Vitals]
) -> FastAPI:
    """The plain application of probes and metrics. It answers in a thread of its own.

    Args:
        stalled: Says why the server should be replaced, or nothing when it is alive.
        ready: Says why the server is not ready, or nothing when it is.
        counts: What the metrics are made of.
        vitals: The rest of them, as it is at a scrape.
    """
    application = create_reviews_app()
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

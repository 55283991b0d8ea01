"""The FastAPI applications, for every request that is no review."""

from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from webhook import __version__
from webhook.programs.exposition import Exposition
from webhook.programs.server.counts import Counts
from webhook.programs.server.metrics import families
from webhook.programs.server.vitals import Vitals


def create_reviews_app() -> FastAPI:
    """Return the application behind the reviews on the HTTPS port. It has no paths yet."""
    return FastAPI(title="gpu-topology-webhook", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)


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

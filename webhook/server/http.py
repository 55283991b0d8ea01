"""The FastAPI applications: everything that is not a review."""

from collections.abc import Callable, Iterator

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from webhook import __version__
from webhook.server.counts import Counts
from webhook.server.metrics import families


def create_reviews_app() -> FastAPI:
    """What stands behind the reviews on the HTTPS port: nothing else is there yet."""
    return FastAPI(title="gpu-topology-webhook", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)


def create_ops_app(ready: Callable[[], str], counts: Counts) -> FastAPI:
    """The plain application of probes and metrics.

    Args:
        ready: Says why the server is not ready, or nothing when it is.
        counts: What the metrics are made of.
    """
    application = create_reviews_app()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(counts))

    @application.get("/healthz")
    async def healthz() -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    @application.get("/readyz")
    async def readyz() -> Response:
        reason = ready()
        return JSONResponse({"status": reason or "ready"}, status_code=503 if reason else 200)

    @application.get("/metrics")
    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), media_type=content_type)

    return application


class _Families(Collector):
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        return families(self._counts)

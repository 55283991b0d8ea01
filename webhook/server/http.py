"""The FastAPI applications: everything that is not a review."""

from collections.abc import Callable

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from webhook import __version__


def create_reviews_app() -> FastAPI:
    """What stands behind the reviews on the HTTPS port: nothing else is there yet."""
    return FastAPI(title="gpu-topology-webhook", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)


def create_ops_app(ready: Callable[[], str]) -> FastAPI:
    """The plain application of probes.

    Args:
        ready: Says why the server is not ready, or nothing when it is.
    """
    application = create_reviews_app()

    @application.get("/healthz")
    async def healthz() -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    @application.get("/readyz")
    async def readyz() -> Response:
        reason = ready()
        return JSONResponse({"status": reason or "ready"}, status_code=503 if reason else 200)

    return application

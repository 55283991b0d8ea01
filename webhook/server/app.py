"""The applications: reviews over TLS, health and readiness in the clear. No state outside of what is passed in."""

from collections.abc import Callable

from fastapi import FastAPI, Response

from webhook import __version__
from webhook.config import AdmitPolicy, Config
from webhook.server.log import AdmissionLog
from webhook.server.reviews import Reviews
from webhook.state import State


def create_app(config: Config, policy: AdmitPolicy, state: State, log: AdmissionLog) -> Reviews:
    """The application behind HTTPS: ``POST /mutate/pods``, and FastAPI for everything else."""
    application = FastAPI(title="gpu-topology-webhook", version=__version__, docs_url=None, redoc_url=None)
    return Reviews(application, state=state, policy=policy, log=log, max_review_bytes=config.server.max_review_bytes)


def create_ops_app(ready: Callable[[], str]) -> FastAPI:
    """The plain application of probes.

    Args:
        ready: Says why the server is not ready, or nothing when it is.
    """
    application = FastAPI(title="gpu-topology-webhook operations", version=__version__, docs_url=None, redoc_url=None)

    @application.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    @application.get("/readyz")
    async def readyz(response: Response) -> dict[str, str]:
        reason = ready()
        response.status_code = 503 if reason else 200
        return {"status": reason or "ready"}

    return application

"""The floor: fixed bytes from a raw ASGI application, with the server settings and the TLS of the webhook.

Its cost is that of uvicorn, TLS and the kernel. No program on uvicorn's ASGI interface can be cheaper.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvicorn

from certs.certificate import issue
from certs.context import server_context

Message = MutableMapping[str, Any]

BODY = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"","allowed":true,"patchType":'
    b'"JSONPatch","patch":"' + b"A" * 2_000 + b'"}}'
)
"""An answer of 2.1 KB, as long as the answer to an injected pod."""

START: Message = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())],
}
ANSWER: Message = {"type": "http.response.body", "body": BODY}


async def application(
    _scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Reads a request to its end without looking at it, and answers."""
    while (await receive()).get("more_body"):
        pass
    await send(START)
    await send(ANSWER)


def main() -> None:
    """Serves until a signal ends it."""
    parser = argparse.ArgumentParser(prog="python -m bench.bare", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ca-file", type=Path, required=True, help="where to write the authority to trust")
    arguments = parser.parse_args()

    bundle = issue(["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    context = server_context(bundle)
    arguments.ca_file.write_bytes(bundle.authority)
    uvicorn.run(
        application,
        host="127.0.0.1",
        port=arguments.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=120,
        ssl_context_factory=lambda *_: context,
    )


if __name__ == "__main__":
    main()

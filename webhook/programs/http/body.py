"""The bodies of requests and answers: read with a limit and written, by the messages of ASGI."""

from webhook.programs.http.asgi import Receive, Scope, Send

JSON = (b"content-type", b"application/json")
TEXT = (b"content-type", b"text/plain; charset=utf-8")
_CLOSE = (b"connection", b"close")
_PIECE_BYTES = 64 * 1024


class BadRequest(Exception):
    """An error that ends a request with an HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text
        super().__init__(text)


async def read_body(scope: Scope, receive: Receive, limit: int, *, setting: str = "") -> bytes:
    """Return the whole body of a request. Our own protocol hands it over in one message; ASGI allows several.

    Args:
        scope: The scope of the request.
        receive: Returns the messages of the request.
        limit: The longest body to accept, in bytes.
        setting: The setting of the configuration that holds the limit; empty if there is none.

    Raises:
        BadRequest: the body is longer, or the client went away before its end.
    """
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message["body"]
        if len(body) > limit:
            raise _too_large(limit, setting)
        return body
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > limit:
            raise _too_large(limit, setting)
    parts, size = [], 0
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_large(limit, setting)
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
    raise BadRequest(400, "request body: the client went away before its end")


async def send_answer(send: Send, status: int, kind: tuple[bytes, bytes], body: bytes, *, closes: bool) -> None:
    """Answer a request.

    Args:
        send: Takes the messages of the answer.
        status: The HTTP status.
        kind: The header with the type of the body.
        body: The body of the answer.
        closes: Whether the client is asked to close its connection.
    """
    headers = [kind, (b"content-length", b"%d" % len(body))]
    if closes:
        headers.append(_CLOSE)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    # In pieces: TLS takes any number of bytes in one write, and reports only at the next that they were too many.
    for begin in range(0, len(body) or 1, _PIECE_BYTES):
        end = begin + _PIECE_BYTES
        await send({"type": "http.response.body", "body": body[begin:end], "more_body": end < len(body)})


def _too_large(limit: int, setting: str) -> BadRequest:
    said = f" ({setting})" if setting else ""
    return BadRequest(413, f"request body: expected at most {limit} bytes{said}, found more")

"""The ``Status`` with which the API server says why it does not do what it is asked for."""

import contextlib

import msgspec

from webhook.kube.connection import Answer
from webhook.model.errors import shorten


class _Details(msgspec.Struct):
    kind: str | None = None


class _Status(msgspec.Struct):
    """The fields of ``v1`` that we read."""

    message: str | None = None
    details: _Details | None = None


_DECODER = msgspec.json.Decoder(_Status)


def words(answer: Answer) -> str:
    """The message, or the beginning of what stands there instead; with the code."""
    with contextlib.suppress(msgspec.MsgspecError):
        if message := _DECODER.decode(answer.body).message:
            return f"{message} ({answer.status})"
    found = shorten(answer.body.decode(errors="replace"))
    return f"expected the words of an API server, found {found} ({answer.status})"


def is_missing(resource: str, answer: Answer) -> bool:
    """Whether the API server itself says that no object of this resource has that name.

    A proxy in between, or a wrong path in the kubeconfig, gives a 404 too.
    """
    if answer.status != 404:
        return False
    with contextlib.suppress(msgspec.MsgspecError):
        details = _DECODER.decode(answer.body).details
        return details is not None and details.kind == resource
    return False

"""The requests to the API server, as values. Other modules send them."""

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

from certs.bundle import TlsBundle
from certs.errors import CertsError

Object = dict[str, Any]
Result = TypeVar("Result")


class Kind(Enum):
    """Kinds of objects, by the beginning of their path; ``{}`` stands for the namespace."""

    SECRET = "/api/v1/namespaces/{}/secrets"  # noqa: S105 - a path
    LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
    CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class PatchType(Enum):
    """Types of a patch: kubernetes.io, "Update API Objects in Place Using kubectl patch"."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class Get:
    """Read an object; the answer has None if there is none."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; a conflict if it exists."""

    kind: Kind
    manifest: Object = field(repr=False)


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace an object; a conflict if its ``resourceVersion`` has changed."""

    kind: Kind
    name: str
    manifest: Object = field(repr=False)


@dataclass(frozen=True, slots=True)
class Patch:
    """Change fields of an object; a conflict as with :class:`Replace`, if the patch names a ``resourceVersion``."""

    kind: Kind
    name: str
    patch: Object = field(repr=False)
    type: PatchType


@dataclass(frozen=True, slots=True)
class Serve:
    """Use this pair in handshakes from now on. The API server does not receive this request."""

    pair: TlsBundle


Request = Get | Create | Replace | Patch | Serve


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request."""

    found: Mapping[str, Any] | None = field(repr=False)
    at: datetime
    """The time of the answer, by the API server's clock."""


async def converse(talk: Generator[Request, Answer, Result], perform: Callable[[Request], Awaitable[Answer]]) -> Result:
    """Run a conversation to its end. It yields requests and receives their answers, or failures as exceptions.

    Returns:
        The value that the conversation returns.

    Raises:
        CertsError: what ``perform`` raised and the conversation did not catch.
    """
    try:
        request = next(talk)
        while True:
            try:
                answer = await perform(request)
            except CertsError as error:
                request = talk.throw(error)
            else:
                request = talk.send(answer)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        talk.close()

"""The questions of kube-scheduler to an extender, and the answers: its extender protocol, version 1.

Go writes the names of the members as they are in its types: kube-scheduler extender/v1/types.go has no JSON tags. With
``nodeCacheCapable``, questions and answers have only the names of nodes. Without it they have whole nodes, of which
only the names are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from webhook.objects.pod import is_present
from webhook.words.errors import GpuTopologyError
from webhook.words.nesting import decode
from webhook.words.shape import shape_problem

MOST_NODES = 100_000
"""The most nodes of a question. Kubernetes supports 5,000; the largest clusters that are offered have 100,000."""
FILTER_PATH, PRIORITIZE_PATH = "/scheduler/filter", "/scheduler/prioritize"


class MalformedQuestion(GpuTopologyError):
    """The body of a request is not a question of a scheduler."""


@dataclass(frozen=True, slots=True)
class ExtenderQuestion:
    """A question about a pod and its candidate nodes."""

    pod: msgspec.Raw
    """The pod as JSON."""
    nodes: Sequence[str]
    """The names of the nodes, each once."""
    documents: Mapping[str, msgspec.Raw] | None
    """The nodes as they were sent, by name; None: only their names were sent."""


class _Arguments(msgspec.Struct, gc=False):
    pod: msgspec.Raw = msgspec.field(name="Pod", default=msgspec.Raw())
    nodes: msgspec.Raw = msgspec.field(name="Nodes", default=msgspec.Raw())
    names: msgspec.Raw = msgspec.field(name="NodeNames", default=msgspec.Raw())


class _NodeList(msgspec.Struct, gc=False):
    items: list[msgspec.Raw] | None = None


class _Metadata(msgspec.Struct, gc=False):
    name: str


class _Node(msgspec.Struct, gc=False):
    metadata: _Metadata


class _Nodes(msgspec.Struct, gc=False):
    items: list[_Node] | None = None


class _Filtered(msgspec.Struct, gc=False):
    nodes: _NodeList | None = msgspec.field(name="Nodes")
    names: list[str] | None = msgspec.field(name="NodeNames")
    failed: Mapping[str, str] = msgspec.field(name="FailedNodes")
    unresolvable: Mapping[str, str] = msgspec.field(name="FailedAndUnresolvableNodes")
    error: str = msgspec.field(name="Error", default="")


class _HostPriority(msgspec.Struct, gc=False):
    host: str = msgspec.field(name="Host")
    score: int = msgspec.field(name="Score")


_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_NAMES = msgspec.json.Decoder(list[str])
_NODES = msgspec.json.Decoder(_Nodes)
_DOCUMENTS = msgspec.json.Decoder(_NodeList)


def decode_question(body: bytes) -> ExtenderQuestion:
    """Returns the question in the body of a request. The pod is not decoded.

    Raises:
        MalformedQuestion: there is no question, or its nodes cannot be read.
    """
    try:
        found = decode(_ARGUMENTS, body)
        if is_present(found.names) or not is_present(found.nodes):
            return ExtenderQuestion(found.pod, _names(found.names), None)
        documents = _documents(found.nodes)
    except msgspec.DecodeError as error:
        raise MalformedQuestion(f"request body: {shape_problem(error)}") from None
    return ExtenderQuestion(found.pod, list(documents), documents)


def _names(listed: msgspec.Raw) -> list[str]:
    """Returns the names in a list, each once. The quotes are counted first: millions of names take much memory."""
    if not is_present(listed):
        return []
    _limit(bytes(listed).count(b'"') // 2)
    found = decode(_NAMES, listed)
    return list(dict.fromkeys(found))


def _documents(listed: msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Returns the nodes of a list by their names. The names are read first: whatever has none ends that at once."""
    nodes = decode(_NODES, listed).items or []
    _limit(len(nodes))
    documents = decode(_DOCUMENTS, listed).items or []
    return {node.metadata.name: document for node, document in zip(nodes, documents, strict=True)}


def _limit(count: int) -> None:
    if count > MOST_NODES:
        raise MalformedQuestion(f"request body: expected at most {MOST_NODES} nodes, found {count}")


def encode_filtered(
    question: ExtenderQuestion, passed: Iterable[str], failed: Mapping[str, str], unresolvable: Mapping[str, str]
) -> bytes:
    """Returns the answer to ``filter``.

    Args:
        question: The question.
        passed: The names of the nodes that the pod may get.
        failed: The reasons why not, by the names of the other nodes.
        unresolvable: The reasons for nodes where it would not help if other pods went.
    """
    kept = list(passed)
    if question.documents is None:
        return msgspec.json.encode(_Filtered(None, kept, failed, unresolvable))
    nodes = _NodeList([question.documents[name] for name in kept])
    return msgspec.json.encode(_Filtered(nodes, None, failed, unresolvable))


def encode_scores(scores: Mapping[str, int]) -> bytes:
    """Returns the answer to ``prioritize``, from scores of 0 to 10 by the names of nodes."""
    return msgspec.json.encode([_HostPriority(name, score) for name, score in scores.items()])

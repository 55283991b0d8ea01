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

FILTER_PATH, PRIORITIZE_PATH = "/scheduler/filter", "/scheduler/prioritize"


class MalformedQuestion(GpuTopologyError):
    """The body of a request is not a question of a scheduler."""


@dataclass(frozen=True, slots=True)
class ExtenderQuestion:
    """A question about a pod and its candidate nodes."""

    pod: msgspec.Raw
    """The pod as JSON."""
    nodes: Sequence[str]
    """The names of the nodes."""
    documents: Mapping[str, msgspec.Raw] | None
    """The nodes as they were sent, by name; None: only their names were sent."""


class _Arguments(msgspec.Struct, gc=False):
    pod: msgspec.Raw = msgspec.field(name="Pod", default=msgspec.Raw())
    nodes: msgspec.Raw = msgspec.field(name="Nodes", default=msgspec.Raw())
    names: list[str] | None = msgspec.field(name="NodeNames", default=None)


class _NodeList(msgspec.Struct, gc=False):
    items: list[msgspec.Raw] | None = None


class _Metadata(msgspec.Struct, gc=False):
    name: str


class _Node(msgspec.Struct, gc=False):
    metadata: _Metadata


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
_NODES = msgspec.json.Decoder(_NodeList)
_NODE = msgspec.json.Decoder(_Node)


def decode_question(body: bytes) -> ExtenderQuestion:
    """Returns the question in the body of a request. The pod is not decoded.

    Raises:
        MalformedQuestion: there is no question, or its nodes cannot be read.
    """
    try:
        found = decode(_ARGUMENTS, body)
        if found.names is not None or not is_present(found.nodes):
            return ExtenderQuestion(found.pod, found.names or [], None)
        listed = decode(_NODES, found.nodes).items or []
        documents = {decode(_NODE, node).metadata.name: node for node in listed}
    except msgspec.DecodeError as error:
        raise MalformedQuestion(f"request body: {shape_problem(error)}") from None
    return ExtenderQuestion(found.pod, list(documents), documents)


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

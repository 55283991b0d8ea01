"""The requirements of a pod to its node: labels, taints and amounts, as kube-scheduler's own filters judge them.

Volumes, ports, other pods (affinity, topology spread) and third-party plugins are not looked at. Where one of those
keeps the scheduler from a node, its refusal says so, and the planner chooses another node.
Sources: k8s.io/component-helpers scheduling/corev1 (nodeaffinity, helpers.go); pkg/scheduler/framework/plugins.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from sys import intern
from typing import NamedTuple, TypeVar

import msgspec

from webhook.objects.amounts import PODS, Amounts
from webhook.objects.node import Taint
from webhook.objects.pod import is_present
from webhook.words.nesting import decode

_T = TypeVar("_T")
MOST_OF_NEEDS = 32 * 1024
"""The most bytes of the requirements of a pod, of which a user may write a megabyte. No node meets longer ones."""
MOST_EXPRESSIONS = 512
"""The most terms and expressions of the node affinity of a pod, and the most tolerations; no node meets more."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,64}")
_LONGEST_INTEGER, _INTEGERS_KEPT = 65, 4096
_SCHEDULED_OFF = ("NoSchedule", "NoExecute")


class _Expression(msgspec.Struct, frozen=True, rename="camel", gc=False):
    key: str
    operator: str
    values: frozenset[str] | None = None


class _Term(msgspec.Struct, frozen=True, rename="camel", gc=False):
    match_expressions: tuple[_Expression, ...] | None = None
    match_fields: tuple[_Expression, ...] | None = None


class _Selector(msgspec.Struct, frozen=True, rename="camel", gc=False):
    terms: tuple[_Term, ...] | None = msgspec.field(name="nodeSelectorTerms", default=None)


class _NodeAffinity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    required: _Selector | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class _Affinity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    node_affinity: _NodeAffinity | None = None


class _Toleration(msgspec.Struct, frozen=True, rename="camel", gc=False):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None

    def covers(self, taint: Taint) -> bool:
        """Returns whether the toleration covers a taint: k8s.io/component-helpers scheduling/corev1/helpers.go."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.operator in (None, "", "Equal") and (self.value or "") == taint.value


_Test = Callable[[str | None], bool]
_Tests = tuple[tuple[str | None, _Test], ...]
"""The tests of a term, each with the key of its label; None: the test is about the name of the node."""
_NAME = "metadata.name"
"""The only field of a node by which a term may select it."""
_SELECTOR = msgspec.json.Decoder(dict[str, str])
_AFFINITY = msgspec.json.Decoder(_Affinity)
_TOLERATIONS = msgspec.json.Decoder(tuple[_Toleration, ...])


class NodeNeeds:
    """The requirements of a pod to a node. Those of pods of one template are equal, and so are their answers.

    Args:
        key: A digest of the three fields, by which answers are kept, also of pods that are gone: their requirements may
            be long. Requirements with the same key are equal.
        selector: ``nodeSelector``.
        terms: The terms of the required node affinity, of which one must match; None: there is none.
        tolerations: The tolerations of taints.
    """

    __slots__ = ("_selector", "_terms", "_tolerations", "key")

    def __init__(
        self,
        key: bytes,
        selector: Mapping[str, str],
        terms: tuple[_Term, ...] | None,
        tolerations: tuple[_Toleration, ...],
    ) -> None:
        self.key, self._selector, self._tolerations = key, selector, tolerations
        self._terms = None if terms is None else [tests for term in terms if (tests := _tests(term))]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeNeeds) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def refusal(self, name: str, labels: Mapping[str, str], taints: tuple[Taint, ...], *, unschedulable: bool) -> str:
        """Returns why the pod may not run on such a node, in a clause about the node; empty if it may."""
        for taint in taints:
            if taint.effect in _SCHEDULED_OFF and not any(each.covers(taint) for each in self._tolerations):
                return intern(f"has the taint {taint.key}")  # kept of thousands of nodes
        if unschedulable and not any(each.covers(_UNSCHEDULABLE) for each in self._tolerations):
            return "is cordoned"
        if any(labels.get(key) != value for key, value in self._selector.items()):
            return "is not selected by nodeSelector"
        if self._terms is not None and not _is_selected(self._terms, name, labels):
            return "is not selected by the node affinity"
        return ""

    def refusal_if_uncordoned(self, name: str, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> str:
        """Returns why the pod might not run on such a node if the node were not cordoned; empty if it might."""
        others = tuple(taint for taint in taints if taint.key != _UNSCHEDULABLE.key)
        return self.refusal(name, labels, others, unschedulable=False)


_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
ANY_NODE = NodeNeeds(b"any", {}, None, ())
_NO_NODE = NodeNeeds(b"none", {}, (), ())


def node_needs(selector: msgspec.Raw, affinity: msgspec.Raw, tolerations: msgspec.Raw) -> NodeNeeds:
    """Reads the requirements of a pod with these JSON fields; no node meets what cannot be read or is too long."""
    texts = bytes(selector), bytes(affinity), bytes(tolerations)
    if sum(map(len, texts)) > MOST_OF_NEEDS:
        return _NO_NODE
    try:
        labels = _decode(_SELECTOR, texts[0])
        asked = _decode(_AFFINITY, texts[1]) or _Affinity()
        required = asked.node_affinity.required if asked.node_affinity else None
        tolerated = _decode(_TOLERATIONS, texts[2]) or ()
    except msgspec.DecodeError:
        return _NO_NODE
    if len(tolerated) > MOST_EXPRESSIONS:
        return _NO_NODE
    key = blake2b(repr(texts).encode(), digest_size=16).digest()
    return NodeNeeds(key, labels or {}, None if required is None else _bounded(required.terms or ()), tolerated)


def _decode(decoder: msgspec.json.Decoder[_T], text: bytes) -> _T | None:
    return decode(decoder, text) if is_present(msgspec.Raw(text)) else None


def _bounded(terms: tuple[_Term, ...]) -> tuple[_Term, ...]:
    expressions = sum(len(term.match_expressions or ()) + len(term.match_fields or ()) for term in terms)
    return terms if len(terms) + expressions <= MOST_EXPRESSIONS else ()


def _is_selected(terms: Sequence[_Tests], name: str, labels: Mapping[str, str]) -> bool:
    """Returns whether a term matches a node. A loop is several times as fast here as ``any`` and ``all``."""
    for tests in terms:
        for key, test in tests:
            if not test(name if key is None else labels.get(key)):
                break
        else:
            return True
    return False


def _tests(term: _Term) -> _Tests:
    """Returns the tests of a term. A term without expressions and fields matches no node, and has none."""
    expressions = ((each.key, _test(each)) for each in term.match_expressions or ())
    fields = ((None, _test(each) if each.key == _NAME else _never) for each in term.match_fields or ())
    return (*expressions, *fields)


def _test(expression: _Expression) -> _Test:
    """Returns the test of the value of a label, which is None where a node has no such label."""
    values = expression.values or frozenset()
    match expression.operator:
        case "In":
            return values.__contains__
        case "NotIn":
            return lambda value: value not in values
        case "Exists":
            return lambda value: value is not None
        case "DoesNotExist":
            return lambda value: value is None
        case "Gt" | "Lt":
            bound = _integer(*values) if len(values) == 1 else None
            return _never if bound is None else partial(_is_beyond, bound, 1 if expression.operator == "Gt" else -1)
    return _never


def _never(_: str | None) -> bool:
    return False


def _is_beyond(bound: int, sign: int, value: str | None) -> bool:
    found = None if value is None else _integer(value)
    return found is not None and sign * (found - bound) > 0


def _integer(text: str) -> int | None:
    """Reads an integer as Go does: strconv.ParseInt with base 10 and 64 bits."""
    return _short_integer(text) if len(text) <= _LONGEST_INTEGER else None


@lru_cache(_INTEGERS_KEPT)
def _short_integer(text: str) -> int | None:
    """Reads an integer. A pod may compare hundreds of them with the label of each node."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class Shortage(NamedTuple):
    """A resource of which a node has too little left."""

    resource: str
    left: int


def shortage(needed: Amounts, allocatable: Amounts, used: Amounts, pods: int) -> Shortage | None:
    """Returns a resource that a node lacks for a pod; None if it has room.

    Source: pkg/scheduler/framework/plugins/noderesources, fitsRequest.

    Args:
        needed: The amounts that the pod needs.
        allocatable: The amounts that the node has.
        used: The amounts that the pods of the node use together.
        pods: The number of these pods.
    """
    if pods >= allocatable.get(PODS, 0):
        return Shortage(PODS, 0)
    for name, amount in needed.items():
        left = allocatable.get(name, 0) - used.get(name, 0)
        if 0 < amount > left:
            return Shortage(name, max(left, 0))
    return None

"""The requirements of a pod to its node: labels, taints and amounts, as kube-scheduler's own filters judge them.

Volumes, ports, other pods (affinity, topology spread) and third-party plugins are not looked at. Where one of those
keeps the scheduler from a node, its refusal says so, and the planner chooses another node.
Sources: k8s.io/component-helpers scheduling/corev1 (nodeaffinity, helpers.go); pkg/scheduler/framework/plugins.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import count
from sys import intern
from typing import NamedTuple, TypeVar

import msgspec

from webhook.objects.amounts import PODS, Amounts
from webhook.objects.node import Taint
from webhook.objects.pod import is_present
from webhook.words.nesting import decode

_T = TypeVar("_T")
_SHARED_KEPT, _LONGEST_SHARED = 256, 4096
"""The most requirements that are kept after their pods are gone, and the most bytes of one."""
MOST_OF_NEEDS = 32 * 1024
"""The most bytes of the requirements of a pod, of which a user may write a megabyte. No node meets longer ones."""
MOST_EXPRESSIONS = 512
"""The most terms and expressions of the node affinity of a pod, and the most tolerations; no node meets more."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,64}")
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


_SELECTOR = msgspec.json.Decoder(dict[str, str])
_AFFINITY = msgspec.json.Decoder(_Affinity)
_TOLERATIONS = msgspec.json.Decoder(tuple[_Toleration, ...])


class NodeNeeds:
    """The requirements of a pod to a node. Pods of one template share one value, so that answers about it can be kept.

    Args:
        selector: ``nodeSelector``.
        terms: The terms of the required node affinity, of which one must match; None: there is none.
        tolerations: The tolerations of taints.
    """

    __slots__ = ("number", "selector", "terms", "tolerations")
    _numbers = count()

    def __init__(
        self, selector: Mapping[str, str], terms: tuple[_Term, ...] | None, tolerations: tuple[_Toleration, ...]
    ) -> None:
        self.selector, self.terms, self.tolerations = selector, terms, tolerations
        self.number = next(self._numbers)
        """The number by which answers are kept, of pods that are gone too: their requirements may be long."""

    def refusal(self, name: str, labels: Mapping[str, str], taints: tuple[Taint, ...], *, unschedulable: bool) -> str:
        """Returns why the pod may not run on such a node, in a clause about the node; empty if it may."""
        for taint in taints:
            if taint.effect in _SCHEDULED_OFF and not any(each.covers(taint) for each in self.tolerations):
                return intern(f"has the taint {taint.key}")  # kept of thousands of nodes
        if unschedulable and not any(each.covers(_UNSCHEDULABLE) for each in self.tolerations):
            return "is cordoned"
        if any(labels.get(key) != value for key, value in self.selector.items()):
            return "is not selected by nodeSelector"
        if self.terms is not None and not any(_matches(term, name, labels) for term in self.terms):
            return "is not selected by the node affinity"
        return ""

    def refusal_if_uncordoned(self, name: str, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> str:
        """Returns why the pod might not run on such a node if the node were not cordoned; empty if it might."""
        others = tuple(taint for taint in taints if taint.key != _UNSCHEDULABLE.key)
        return self.refusal(name, labels, others, unschedulable=False)


_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
ANY_NODE = NodeNeeds({}, None, ())
_NO_NODE = NodeNeeds({}, (), ())


def node_needs(selector: msgspec.Raw, affinity: msgspec.Raw, tolerations: msgspec.Raw) -> NodeNeeds:
    """Reads the requirements of a pod with these JSON fields; no node meets what cannot be read or is too long."""
    texts = bytes(selector), bytes(affinity), bytes(tolerations)
    length = sum(map(len, texts))
    if length > MOST_OF_NEEDS:
        return _NO_NODE
    return _shared_needs(*texts) if length <= _LONGEST_SHARED else _node_needs(*texts)


def _node_needs(selector: bytes, affinity: bytes, tolerations: bytes) -> NodeNeeds:
    try:
        labels = _decode(_SELECTOR, selector)
        asked = _decode(_AFFINITY, affinity) or _Affinity()
        required = asked.node_affinity.required if asked.node_affinity else None
        tolerated = _decode(_TOLERATIONS, tolerations) or ()
    except msgspec.DecodeError:
        return _NO_NODE
    if len(tolerated) > MOST_EXPRESSIONS:
        return _NO_NODE
    return NodeNeeds(labels or {}, None if required is None else _bounded(required.terms or ()), tolerated)


_shared_needs = lru_cache(_SHARED_KEPT)(_node_needs)


def _decode(decoder: msgspec.json.Decoder[_T], text: bytes) -> _T | None:
    return decode(decoder, text) if is_present(msgspec.Raw(text)) else None


def _bounded(terms: tuple[_Term, ...]) -> tuple[_Term, ...]:
    expressions = sum(len(term.match_expressions or ()) + len(term.match_fields or ()) for term in terms)
    return terms if len(terms) + expressions <= MOST_EXPRESSIONS else ()


def _matches(term: _Term, name: str, labels: Mapping[str, str]) -> bool:
    """Returns whether a term matches a node. A term without expressions and fields matches no node."""
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not expressions and not fields:
        return False
    return all(_holds(each, labels.get(each.key)) for each in expressions) and all(
        each.key == "metadata.name" and _holds(each, name) for each in fields
    )


def _holds(expression: _Expression, value: str | None) -> bool:
    values = expression.values or frozenset()
    match expression.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(expression.operator, value, values)
    return False


def _compares(operator: str, value: str | None, values: frozenset[str]) -> bool:
    found, bound = _integer(value or ""), _integer(*values) if len(values) == 1 else None
    if found is None or bound is None:
        return False
    return found > bound if operator == "Gt" else found < bound


def _integer(text: str) -> int | None:
    """Reads an integer as Go does: strconv.ParseInt with base 10 and 64 bits."""
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

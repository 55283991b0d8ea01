"""PromQL expressions, judged by the metrics that there are."""

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

import promql_parser as promql

from tests.observe.exposed import API_SERVER, TARGET_LABELS, Exposed

E = TypeVar("E", bound=promql.Expr)
Recorded = Mapping[str, frozenset[str]]
"""Names of recorded series, with the labels that their expressions leave."""


def mistakes(text: str, exposed: Exposed, recorded: Recorded) -> list[str]:
    """What an expression names that does not exist: series, labels, values of labels."""
    expression = promql.parse(text)
    found: list[str] = []
    known: set[str] = set()
    for selector in _all(expression, promql.VectorSelector):
        labels = labels_of(selector, exposed, recorded)
        if labels is None:
            found.append(f"no series {selector.name}")
            continue
        known |= labels
        for matcher in selector.matchers.matchers:
            if matcher.name not in labels:
                found.append(f"no label {matcher.name} of {selector.name}")
            elif not _is_possible(matcher, exposed.series.get(str(selector.name), {}).get(matcher.name)):
                found.append(f"no such value: {selector.name} {matcher}")
    for aggregation in _all(expression, promql.AggregateExpr):
        named = aggregation.modifier.labels if aggregation.modifier else []
        found += [f"no label {label} to aggregate by" for label in named if label not in known]
    return found


def labels_left(text: str, exposed: Exposed, recorded: Recorded) -> frozenset[str]:
    """The labels of what an expression gives."""
    return _left(promql.parse(text), exposed, recorded)


def labels_of(selector: promql.VectorSelector, exposed: Exposed, recorded: Recorded) -> frozenset[str] | None:
    """The labels of a series; None if there is no such series."""
    name = str(selector.name)
    if name in recorded:
        return recorded[name]
    if name in API_SERVER:
        return frozenset(API_SERVER[name]) | TARGET_LABELS
    if name in exposed.series:
        labels = frozenset(exposed.series[name])
        return labels | TARGET_LABELS | {f"exported_{label}" for label in labels & TARGET_LABELS}
    return None


def series_of(text: str) -> set[str]:
    """Names of the series that an expression reads."""
    return {str(selector.name) for selector in _all(promql.parse(text), promql.VectorSelector)}


def _left(expression: promql.Expr, exposed: Exposed, recorded: Recorded) -> frozenset[str]:
    match expression:
        case promql.VectorSelector():
            return labels_of(expression, exposed, recorded) or frozenset()
        case promql.MatrixSelector():
            return _left(expression.vector_selector, exposed, recorded)
        case promql.AggregateExpr():
            return frozenset(expression.modifier.labels if expression.modifier else ())
        case promql.BinaryExpr():
            left = _left(expression.lhs, exposed, recorded)
            return left | _left(expression.rhs, exposed, recorded) if str(expression.op) == "or" else left
        case promql.ParenExpr():
            return _left(expression.expr, exposed, recorded)
        case promql.Call():
            labels = frozenset[str]().union(*(_left(each, exposed, recorded) for each in expression.args))
            return labels - {"le"} if expression.func.name == "histogram_quantile" else labels
    return frozenset()


def _is_possible(matcher: promql.Matcher, values: set[str] | None) -> bool:
    """Whether the matcher makes a difference for values that are known; of others nothing is said."""
    if values is None or matcher.value == "$namespace":
        return True
    if matcher.op in (promql.MatchOp.Re, promql.MatchOp.NotRe):
        return all(any(re.fullmatch(each, value) for value in values) for each in matcher.value.split("|"))
    return matcher.value in values


def _all(expression: promql.Expr, kind: type[E]) -> Iterator[E]:
    found: list[E] = []

    def visit(each: promql.Expr) -> bool:
        if isinstance(each, kind):
            found.append(each)
        return True

    promql.walk(expression, visit)
    return iter(found)

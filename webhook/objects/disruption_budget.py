"""The PodDisruptionBudget of the API server, as far as it decides whether a pod may be evicted."""

import msgspec

from webhook.words.nesting import decode_answer

_OPERATORS = {
    "In": "{key} in ({values})",
    "NotIn": "{key} notin ({values})",
    "Exists": "{key}",
    "DoesNotExist": "!{key}",
}


class _Expression(msgspec.Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[_Expression, ...] | None = None


class _Spec(msgspec.Struct, frozen=True):
    selector: _Selector | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str


class DisruptionBudget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget."""

    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def key(self) -> str:
        """The namespace and name of the budget."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def allowed(self) -> int:
        """The evictions that it allows now."""
        return self.status.disruptions_allowed

    @property
    def label_selector(self) -> str | None:
        """The selector in the form of the query ``labelSelector``; empty: all pods of its namespace; None: no pod.

        An operator that is not known selects all pods, so that none is evicted against the budget.
        """
        selector = self.spec.selector
        if selector is None:
            return None
        expressions = selector.match_expressions or ()
        if any(each.operator not in _OPERATORS for each in expressions):
            return ""
        parts = [f"{key}={value}" for key, value in (selector.match_labels or {}).items()]
        parts += [
            _OPERATORS[each.operator].format(key=each.key, values=",".join(each.values or ())) for each in expressions
        ]
        return ",".join(parts)


_DECODER = msgspec.json.Decoder(DisruptionBudget)


def read_disruption_budget(document: bytes) -> DisruptionBudget:
    """Reads a PodDisruptionBudget.

    Raises:
        msgspec.DecodeError: the document is none.
    """
    return decode_answer(_DECODER, document)

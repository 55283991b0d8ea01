"""The plan of a change to a namespace: the labels and annotations that lead to what is wanted, and the way back."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from webhook.decisions.options import OPTION_NAMES, Options, parse_option, parse_variable, resolve_options
from webhook.insight.analyze.namespaces import needed_labels
from webhook.insight.namespace.meaning import LABELS, ON, meaning_of_annotation, meaning_of_label
from webhook.objects.pod import Namespace, Pod
from webhook.words import names
from webhook.words.choices import Profile

_PRIVILEGED = "privileged"
_HOST_LABELS = frozenset({names.ALLOW_HOST_IPC, names.ALLOW_HOST_PID, names.ALLOW_HOST_NETWORK})


class Field(enum.StrEnum):
    """The part of the metadata in which a key is."""

    LABEL = "label"
    ANNOTATION = "annotation"


class Setting(NamedTuple):
    """A label or annotation that a namespace has."""

    field: Field
    key: str
    value: str
    meaning: str
    """What it does; empty if it has no effect."""


class Change(NamedTuple):
    """A label or annotation that is set or removed."""

    field: Field
    key: str
    before: str | None
    """The value before; None if there was none."""
    after: str | None
    """The value afterwards; None if it is removed."""

    @property
    def meaning(self) -> str:
        """What the key does afterwards, or no longer does."""
        value = self.before if self.after is None else self.after
        said = _meaning(self.field, self.key, value or "")
        return f"no longer: {said}" if said and self.after is None else said

    @property
    def undone(self) -> "Change":
        """The change that leads back."""
        return self._replace(before=self.after, after=self.before)


class Wanted(msgspec.Struct, frozen=True):
    """What is asked for."""

    options: Mapping[str, str] = {}
    """The values of options by their names without the prefix, also of ``env.NAME``."""
    allowed: Sequence[str] = ()
    """The permissions, as the names of labels without the prefix: ``allow-node-gpus``."""
    unset: Sequence[str] = ()
    """The options and labels to remove, by their names without the prefix."""


class Plan(msgspec.Struct, frozen=True):
    """A namespace now and as it is to be, and what leads there."""

    now: Namespace
    then: Namespace
    changes: tuple[Change, ...]

    def values(self, field: Field) -> dict[str, str | None]:
        """Returns the new values of the labels or annotations that change; None for one that is removed."""
        return {change.key: change.after for change in self.changes if change.field is field}

    @property
    def way_back(self) -> tuple[Change, ...]:
        """The changes that undo the plan, the last one first."""
        return tuple(change.undone for change in reversed(self.changes))


def settings(namespace: Namespace) -> Iterator[Setting]:
    """Yields the labels and annotations of a namespace that are ours or decide about its GPU pods."""
    for key in sorted(namespace.labels, key=_place):
        if key in LABELS or key.startswith(names.PREFIX):
            value = namespace.labels[key]
            yield Setting(Field.LABEL, key, value, meaning_of_label(key, value))
    for key in sorted(namespace.annotations, key=_place):
        if key.startswith(names.PREFIX):
            value = namespace.annotations[key]
            yield Setting(Field.ANNOTATION, key, value, meaning_of_annotation(key, value))


def plan(now: Namespace, wanted: Wanted, defaults: Options) -> Plan:
    """Returns the plan of a change: the namespace is opted in, with these options and the permissions that they need.

    The Pod Security level becomes ``privileged`` only where there is another one and a host namespace is needed.

    Args:
        now: The namespace.
        wanted: What is asked for.
        defaults: The options of the configuration.

    Raises:
        FormatError: a value does not parse: one that is asked for, or one that the namespace has and keeps.
    """
    for name, text in wanted.options.items():
        _check(name, text)
    removed = {names.PREFIX + name for name in wanted.unset}
    set_now = {names.PREFIX + name: text for name, text in wanted.options.items()}
    annotations = {key: value for key, value in {**now.annotations, **set_now}.items() if key not in removed}
    options = resolve_options(defaults, Pod(), Namespace(now.name, now.labels, annotations))
    labels = dict(now.labels) | _labels(now, options, wanted.allowed)
    labels = {key: value for key, value in labels.items() if key not in removed}
    return _planned(now, Namespace(now.name, labels, annotations, known=now.known))


def way_out(now: Namespace) -> Plan:
    """Returns the plan that removes every label and annotation of ours. The Pod Security level stays."""
    labels = {key: value for key, value in now.labels.items() if not key.startswith(names.PREFIX)}
    annotations = {key: value for key, value in now.annotations.items() if not key.startswith(names.PREFIX)}
    found = _planned(now, Namespace(now.name, labels, annotations, known=now.known))
    return Plan(found.now, found.then, found.changes[::-1])


def _check(name: str, text: str) -> None:
    """Raises FormatError if an option cannot have this value."""
    source = f"option --{name}"
    if name.startswith(names.ENV_PREFIX):
        parse_variable(name.removeprefix(names.ENV_PREFIX), text, source="option --env", replaces=False)
    else:
        parse_option(name, text, source=source)


def _labels(now: Namespace, options: Options, allowed: Sequence[str]) -> dict[str, str]:
    """Returns the labels that the options need, and those that are asked for."""
    needed = {} if options.profile is Profile.OBSERVE else needed_labels(options)
    labels = dict.fromkeys([*needed, *(names.PREFIX + name for name in allowed)], "true")
    level = now.labels.get(names.POD_SECURITY_ENFORCE)
    if level not in (None, _PRIVILEGED) and not _HOST_LABELS.isdisjoint(needed):
        labels[names.POD_SECURITY_ENFORCE] = _PRIVILEGED
    return labels | {names.INJECTION: ON[names.INJECTION]}


def _planned(now: Namespace, then: Namespace) -> Plan:
    """Returns the plan from one namespace to the other: annotations before labels, and the opt-in last.

    In this order the first pod that is injected meets the options that are meant for it.
    """
    changes = (
        *_changes(Field.ANNOTATION, now.annotations, then.annotations),
        *_changes(Field.LABEL, now.labels, then.labels),
    )
    return Plan(now, then, changes)


def _changes(field: Field, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    for key in sorted({**before, **after}, key=_place):
        old, new = before.get(key), after.get(key)
        if old != new:
            yield Change(field, key, old, new)


def _place(key: str) -> tuple[int, str]:
    """Returns the place of a key: options in the order of their table, then other keys, and the opt-in last."""
    if key == names.INJECTION:
        return len(OPTION_NAMES) + 2, key
    name = key.removeprefix(names.PREFIX)
    if key.startswith(names.PREFIX) and name in OPTION_NAMES:
        return OPTION_NAMES.index(name), key
    return len(OPTION_NAMES) + (key not in LABELS), key


def _meaning(field: Field, key: str, value: str) -> str:
    return meaning_of_label(key, value) if field is Field.LABEL else meaning_of_annotation(key, value)

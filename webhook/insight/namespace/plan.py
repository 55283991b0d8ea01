"""What a namespace has opted into, a change to it, and the ``kubectl`` lines that make the change."""

import enum
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from webhook.decisions.options import FORMER_NAMES, OPTION_NAMES, Options, parse_option, parse_variable, resolve_options
from webhook.insight.analyze.namespaces import needed_labels
from webhook.objects.pod import Namespace, Pod
from webhook.words import names
from webhook.words.choices import Profile
from webhook.words.errors import FormatError
from webhook.words.printable import printable

_PRIVILEGED = "privileged"
_HOST_LABELS = frozenset({names.ALLOW_HOST_IPC, names.ALLOW_HOST_PID, names.ALLOW_HOST_NETWORK})
PERMISSIONS = (names.ALLOW_HOST_IPC, names.ALLOW_HOST_PID, names.ALLOW_HOST_NETWORK, names.ALLOW_NODE_GPUS)
OPTED_IN = {names.INJECTION: "enabled"}
_MEANINGS: Mapping[tuple[str, str], str] = {
    (names.INJECTION, "enabled"): (
        "the webhook treats its pods as its options say; without any, those with two or more whole cards"
    ),
    (names.ALLOW_HOST_IPC, "true"): "its pods may get the IPC namespace of their node (hostIPC)",
    (names.ALLOW_HOST_PID, "true"): "its pods may get the process IDs of their node (hostPID)",
    (names.ALLOW_HOST_NETWORK, "true"): "its pods may get the network of their node (hostNetwork)",
    (names.ALLOW_NODE_GPUS, "true"): "its pods may see every card of their node, also those of other namespaces",
    (names.POD_SECURITY_ENFORCE, _PRIVILEGED): (
        "Kubernetes admits every pod, privileged ones too: the other levels reject host namespaces"
    ),
    (names.HAMI_WEBHOOK, "ignore"): "HAMi's webhook leaves its pods alone, and so they get no cards of HAMi",
    (f"{names.PREFIX}inject", "true"): "its pods with one whole card are injected too",
    (f"{names.PREFIX}inject", "false"): "its pods are left alone, except those that ask for injection themselves",
    (f"{names.PREFIX}profile", Profile.EXCLUSIVE): "each container reaches the memory of its own cards",
    (f"{names.PREFIX}profile", Profile.POD_PEERS): (
        "the containers of a pod see each other's cards and reach their memory"
    ),
    (f"{names.PREFIX}profile", Profile.NODE_PEERS): (
        "the pods of a node see each other's cards and reach their memory; they run in namespaces of the host"
    ),
    (f"{names.PREFIX}profile", Profile.OBSERVE): (
        "its pods are left as they are; warnings and metrics say what would change"
    ),
}
_NO_EFFECT = "no effect"


class Field(enum.StrEnum):
    """The part of the metadata in which a key is, as kubectl names the verb that writes it."""

    LABEL = "label"
    ANNOTATION = "annotate"


class Change(NamedTuple):
    """A label or annotation that is set or removed."""

    field: Field
    key: str
    before: str | None
    """The value before; None if there was none."""
    after: str | None
    """The value afterwards; None if it is removed."""


def meaning(key: str, value: str) -> str:
    """Returns what a label or annotation of a namespace does; empty if the table of options says it."""
    if (key, value) in _MEANINGS:
        return _MEANINGS[key, value]
    name = key.removeprefix(names.PREFIX)
    is_option = name in OPTION_NAMES or name in FORMER_NAMES or name.startswith(names.ENV_PREFIX)
    return "" if is_option or key == names.POD_SECURITY_ENFORCE else _NO_EFFECT


def settings(namespace: Namespace) -> Iterator[tuple[str, str]]:
    """Yields the labels and annotations of a namespace that are ours or decide about its GPU pods, in their order."""
    for found in (namespace.labels, namespace.annotations):
        for key in sorted(found):
            if key.startswith(names.PREFIX) or key in (names.POD_SECURITY_ENFORCE, names.HAMI_WEBHOOK):
                yield key, found[key]


def check_value(name: str, text: str, *, source: str) -> None:
    """Raises FormatError if there is no option or permission of this name (without the prefix), or not this value."""
    if name.startswith(names.ENV_PREFIX):
        parse_variable(name.removeprefix(names.ENV_PREFIX), text, source=source, replaces=False)
    elif name in OPTION_NAMES:
        parse_option(name, text, source=source)
    elif names.PREFIX + name not in PERMISSIONS:
        expected = "an option such as profile, env.NAME, or a permission such as allow-node-gpus"
        raise FormatError(source, expected=expected, found=name)
    elif text not in ("true", "false"):
        raise FormatError(source, expected='"true" or "false"', found=text)


def changed(now: Namespace, values: Mapping[str, str], removed: Collection[str], defaults: Options) -> Namespace:
    """Returns the namespace as it is to be: opted in, with these options and the permissions that they need.

    The Pod Security level becomes ``privileged`` only where there is another one and a host namespace is needed.

    Args:
        now: The namespace.
        values: The options and permissions to set, by their names without the prefix.
        removed: The options and labels to remove, by their names without the prefix.
        defaults: The options of the configuration.

    Raises:
        FormatError: a value that the namespace has and keeps does not parse.
    """
    gone = {names.PREFIX + name for name in removed}
    given = {names.PREFIX + name: value for name, value in values.items()}
    permitted = {key: value for key, value in given.items() if key in PERMISSIONS}
    annotations = now.annotations | {key: value for key, value in given.items() if key not in PERMISSIONS}
    annotations = {key: value for key, value in annotations.items() if key not in gone}
    options = resolve_options(defaults, Pod(), Namespace(now.name, now.labels, annotations))
    labels = dict(now.labels) | _needed(now, options) | permitted | OPTED_IN
    labels = {key: value for key, value in labels.items() if key not in gone}
    return Namespace(now.name, labels, annotations, known=now.known)


def without_ours(now: Namespace) -> Namespace:
    """Returns the namespace without a label or annotation of ours. The Pod Security level stays."""
    labels = {key: value for key, value in now.labels.items() if not key.startswith(names.PREFIX)}
    annotations = {key: value for key, value in now.annotations.items() if not key.startswith(names.PREFIX)}
    return Namespace(now.name, labels, annotations, known=now.known)


def changes(now: Namespace, then: Namespace) -> list[Change]:
    """Returns what leads from one namespace to the other: annotations before labels, and the opt-in last.

    In this order the first pod that is injected meets the options that are meant for it. An opt-out comes first.
    """
    found = [
        Change(field, key, before.get(key), after.get(key))
        for field, before, after in (
            (Field.ANNOTATION, now.annotations, then.annotations),
            (Field.LABEL, now.labels, then.labels),
        )
        for key in sorted({**before, **after}, key=lambda key: (key == names.INJECTION, key))
        if before.get(key) != after.get(key)
    ]
    return found[::-1] if now.injection_enabled and not then.injection_enabled else found


def commands(namespace: str, made: Iterable[Change], cluster: Sequence[str] = ()) -> Iterator[str]:
    """Yields the commands of kubectl that make the changes, in their order, quoted for a shell.

    Args:
        namespace: The name of the namespace.
        made: The changes.
        cluster: The arguments of kubectl that name the cluster, such as ``--context`` and its name.
    """
    for field, group in groupby(made, key=lambda change: change.field):
        own = list(group)
        arguments = [f"{each.key}-" if each.after is None else f"{each.key}={each.after}" for each in own]
        overwrites = any(each.before is not None and each.after is not None for each in own)
        words = ["kubectl", *cluster, field, "namespace", namespace, *arguments, *(["--overwrite"] * overwrites)]
        yield " ".join(map(shell_word, words))


def shell_word(word: str) -> str:
    r"""Returns a word as bash reads it back; one with characters that a terminal may act on in the form ``$'\n'``."""
    if printable(word) == word:
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _needed(now: Namespace, options: Options) -> dict[str, str]:
    """Returns the labels that the options need."""
    if options.profile is Profile.OBSERVE:
        return {}
    labels = dict.fromkeys(needed_labels(options), "true")
    level = now.labels.get(names.POD_SECURITY_ENFORCE)
    if level not in (None, _PRIVILEGED) and not _HOST_LABELS.isdisjoint(labels):
        labels[names.POD_SECURITY_ENFORCE] = _PRIVILEGED
    return labels


def _escaped(character: str) -> str:
    if character in "'\\":
        return "\\" + character
    if printable(character) == character:
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))

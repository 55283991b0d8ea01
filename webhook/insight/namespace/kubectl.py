"""The ``kubectl`` lines of a change to a namespace, quoted for a shell."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from webhook.insight.namespace.plan import Change, Field
from webhook.words.printable import printable

_VERBS = {Field.LABEL: "label", Field.ANNOTATION: "annotate"}


class Line(NamedTuple):
    """One command of kubectl, with the changes that it makes."""

    command: str
    changes: tuple[Change, ...]


def lines(namespace: str, changes: Iterable[Change], cluster: Sequence[str] = ()) -> Iterator[Line]:
    """Yields the commands that make the changes, in their order.

    Args:
        namespace: The name of the namespace.
        changes: The changes.
        cluster: The arguments of kubectl that name the cluster, such as ``--context`` and its name.
    """
    for field, group in groupby(changes, key=lambda change: change.field):
        made = tuple(group)
        words = ["kubectl", *cluster, _VERBS[field], "namespace", namespace, *map(_argument, made)]
        if any(change.before is not None and change.after is not None for change in made):
            words.append("--overwrite")
        yield Line(" ".join(map(shell_word, words)), made)


def shell_word(word: str) -> str:
    r"""Returns a word as bash reads it back; one with characters that a terminal may act on in the form ``$'\n'``."""
    if printable(word) == word:
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(character: str) -> str:
    if character in "'\\":
        return "\\" + character
    if printable(character) == character:
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def _argument(change: Change) -> str:
    return f"{change.key}-" if change.after is None else f"{change.key}={change.after}"

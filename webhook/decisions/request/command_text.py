"""The GPU lists that the commands of a container set, found by a search in their text.

The search is a heuristic: the effect of a shell or a program cannot be known from its text. It knows the usual ways in
which shells and Python set or remove a variable, and looks at a few hundred characters around each mention. Lists that
show no GPU (empty, or -1), and lists that begin with the variable itself, take nothing from others and do not count.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from webhook.objects.pod import Container, may_spell
from webhook.words import names

_TAIL = "VISIBLE_DEVICES"
_NEEDLE = _TAIL.encode()
_MENTION = re.compile(_TAIL + r"(?![A-Za-z0-9_])")
_LISTS = {name.removesuffix(_TAIL): name for name in (names.ENV_CUDA_VISIBLE_DEVICES, names.ENV_NVIDIA_VISIBLE_DEVICES)}
_BEFORE, _AFTER = 256, 96
"""Characters that are searched before and after a mention."""
MENTIONS = 256
"""The most mentions in one container; later ones are not looked at."""
MENTIONS_OF_ALL = 8 * MENTIONS
"""The most mentions in all containers of a pod together. 128 containers of :data:`MENTIONS` would keep the reviews of
other pods waiting for a third of a second."""

_QUOTE = r"""\\?["']"""
_SHELL = re.compile(rf"(?:{_QUOTE})?\+?=(?!=)")
"""``NAME=value``, also behind ``export``, ``env`` or ``--env``, and as a keyword argument in Python."""
_ITEM = re.compile(rf"{_QUOTE}[ \t]{{0,4}}\][ \t]{{0,4}}=(?!=)[ \t]{{0,4}}")
"""``os.environ["NAME"] = value``."""
_ENTRY = re.compile(rf"{_QUOTE}[ \t]{{0,4}}[:,][ \t]{{0,4}}")
"""``{"NAME": value}`` and ``putenv("NAME", value)``."""
_CALL = re.compile(rf"(?:putenv|setenv)\([ \t]{{0,4}}{_QUOTE}\Z")
_CSH = re.compile(r"\bsetenv[ \t]{1,4}\Z")
_REMOVED = re.compile(
    rf"(?:\s-u\s{{1,4}}|--unset[=\s]|(?:(?:\.pop|unsetenv)\(|\bdel [\w.]{{1,32}}\[)[ \t]{{0,4}}{_QUOTE})\Z"
)
_REFERENCE = re.compile(r"\$\{?[#!]?\Z")
_COMMENT = re.compile(r"(?:\A|\s)#")
_SEPARATOR = re.compile(r"[\n;&|`]")
_SHOWN = re.compile(r"[\s({!]{0,16}(?:(?:then|do|else)\s{1,4})?(?:echo|printf|print|logger|grep|egrep|fgrep)\b")
"""A command that only shows its arguments, or searches for them, unless it writes them into a file."""
_INTO_FILE = re.compile(r"[^\n]*?\s>{1,2}\s{0,4}[\w./~$]")
_UNSET = re.compile(r"[\s({]{0,16}(?:(?:then|do|else)\s{1,4})?unset\s")
_HIDES = re.compile(rf"(?:{_QUOTE}(?:-1)?{_QUOTE}|-1)(?=[\s;&|)}}\],]|\Z)|(?=[\s;&|)]|\Z)")
_OWN = {
    name: re.compile(
        rf"(?:{_QUOTE})?\$(?:{name}(?![A-Za-z0-9_]|,[0-9G])|[{{(]{name}(?!:?\+|[A-Za-z0-9_]|\}},[0-9G]))"
        rf"|os\.(?:environ(?:\.get)?|getenv)[\[(]{_QUOTE}{name}{_QUOTE}"
    )
    for name in _LISTS.values()
}


def assigned_lists(container: Container) -> tuple[str, ...]:
    """Returns the variables with lists of GPUs that a container's commands set or remove, in the order of the text.

    ``command`` and ``args``, and the commands of probes and lifecycle hooks, are looked at.

    Raises:
        MalformedPod: a command has another type than in a container.
    """
    return next(lists_of_each([container]))


def lists_of_each(containers: Iterable[Container]) -> Iterator[tuple[str, ...]]:
    """Yields what :func:`assigned_lists` returns for each container of a pod.

    Raises:
        MalformedPod: a command has another type than in a container.
    """
    room = MENTIONS_OF_ALL
    for container in containers:
        if not may_spell(container.command_fields, _NEEDLE):
            yield ()
            continue
        text = "\n".join(container.commands)
        mentions = list(islice(_MENTION.finditer(text), min(MENTIONS, room)))
        room -= len(mentions)
        yield tuple(dict.fromkeys(_assignments(text, mentions)))


def _assignments(text: str, mentions: Iterable[re.Match[str]]) -> Iterator[str]:
    for mention in mentions:
        before = text[max(0, mention.start() - _BEFORE) : mention.start()]
        prefix = next((prefix for prefix in _LISTS if before.endswith(prefix)), "")
        before = before.removesuffix(prefix)
        is_part_of_a_name = before[-1:].isalnum() or before.endswith("_")
        after = text[mention.end() : mention.end() + _AFTER]
        if prefix and not is_part_of_a_name and _is_set(before, after, _LISTS[prefix]):
            yield _LISTS[prefix]


def _is_set(before: str, after: str, name: str) -> bool:
    """Returns whether the mention of ``name`` between these texts sets or removes the variable."""
    line = before[before.rfind("\n") + 1 :]
    if _COMMENT.search(line) or _REFERENCE.search(before[-4:]):
        return False
    command = _SEPARATOR.split(before)[-1]
    if _SHOWN.match(command) and not _INTO_FILE.match(after):
        return False
    if _REMOVED.search(before[-64:]) or _UNSET.match(command):
        return True
    if _CSH.search(before[-16:]):
        return True
    value = _value(before, after)
    return value is not None and not _HIDES.match(value) and not _OWN[name].match(value)


def _value(before: str, after: str) -> str | None:
    """Returns the text that begins with the assigned value; ``None`` if nothing is assigned."""
    found = _SHELL.match(after) or _ITEM.match(after)
    if found is None and before[-1:] in ("'", '"'):
        found = _ENTRY.match(after)
        if found and "," in found[0] and not _CALL.search(before[-24:]):
            return None
    return after[found.end() :] if found else None

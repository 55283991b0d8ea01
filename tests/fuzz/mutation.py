"""Bends inputs by chance: JSON by its structure, other texts by lines and words. Equal chance gives equal inputs."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from tests.fuzz.vocabulary import HOSTILE_NUMBERS, HOSTILE_TEXTS, HOSTILE_VALUES, RAW, WORDS

Chance: TypeAlias = Random
Seen: TypeAlias = dict[str, list[Any]]
"""Values that seeds have, by the name of the member that leads to them; an entry is called like its list."""
KEPT = 100
"""Different values of one name that are remembered."""
MANY = (2, 3, 8, 40, 300)
"""How often something is repeated: what is quadratic shows."""
_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
_MARKED = re.compile("|".join(map(re.escape, RAW)))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value stands in a document."""

    holder: Any
    key: Any
    """Of the holder, an object or a list."""
    name: str

    @property
    def value(self) -> Any:
        return self.holder[self.key]


def seen_in(documents: Iterable[Any]) -> Seen:
    """All that documents have, those included that are the text of a value."""
    found: Seen = {}
    for document in documents:
        for place in _places([document], ""):
            values = found.setdefault(place.name, [])
            if len(values) < KEPT and place.value not in values:
                values.append(place.value)
    return found


def bent_json(data: bytes, chance: Chance, seen: Seen) -> bytes | None:
    """``data``, bent in one to four places; ``None`` if it is no JSON object or list."""
    root = inner_document(data.decode("utf-8", "replace"))
    if root is None:
        return None
    holder = [root]
    try:
        for _ in range(_times(chance)):
            _bend(holder, "", chance, seen)
        return _text(holder[0]).encode()
    except (ValueError, RecursionError):
        return None


def bent_lines(data: bytes, chance: Chance, known: Sequence[str]) -> bytes:
    """``data``, a text that is no JSON, bent in one to four places; bytes that are no UTF-8 stay."""
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(_times(chance)):
        lines = text.splitlines(keepends=True) or [""]
        at = chance.randrange(len(lines))
        match chance.randrange(6):
            case 0:
                del lines[at : at + chance.choice((1, 1, 1, 5))]
            case 1:
                lines[at:at] = lines[at : at + chance.choice((1, 3))] * chance.choice(MANY)
            case 2:
                lines[at:at] = [chance.choice(known) + "\n"]
            case _:
                lines[at] = _bent_text(lines[at], chance, known)
        text = "".join(lines)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def inner_document(text: str) -> Any:
    """The object or list that a text is the JSON of; ``None`` if it is something else."""
    try:
        found = json.loads(text) if text.startswith(("{", "[")) else None
    except (ValueError, RecursionError):
        return None
    return found


def _times(chance: Chance) -> int:
    return 1 + min(3, int(chance.expovariate(1)))


def _bend(holder: list[Any], name: str, chance: Chance, seen: Seen) -> None:
    """Change something in the document ``holder[0]``."""
    places = list(_places(holder, name, are_texts_read=False))
    place = places[chance.randrange(1, len(places))] if len(places) > 1 else places[0]
    match chance.randrange(13):
        case 0 | 1:
            known = seen.get(place.name)
            place.holder[place.key] = _copy(chance.choice(known) if known and chance.random() < 0.6 else _any(chance))
        case 2 | 3 | 4 | 5:
            _add(
                chance.choice([each for each in places if isinstance(each.value, dict | list)] or places), chance, seen
            )
        case 6 | 7 | 8:
            _edit(
                chance.choice([each for each in places if not isinstance(each.value, dict | list)] or places),
                chance,
                seen,
            )
        case 9 if place is not places[0]:
            del place.holder[place.key]
        case 10 if isinstance(place.holder, list):
            times = range(chance.choice(MANY))
            place.holder[place.key : place.key] = [_numbered(_copy(place.value), time) for time in times]
        case 10:
            place.holder.update({f"{place.key}{time}": place.value for time in range(chance.choice(MANY))})
        case 11:
            place.holder[place.key] = _copy(chance.choice(places).value)
        case 12 if isinstance(place.holder, dict):
            place.holder[chance.choice((*WORDS, *place.holder))] = place.holder.pop(place.key)


def _add(place: _Place, chance: Chance, seen: Seen) -> None:
    """A member or an entry, mostly one that a seed has there."""
    value = place.value
    if not isinstance(value, dict | list):
        return
    known = [each for each in seen.get(place.name, []) if each and isinstance(each, type(value))]
    model = chance.choice(known) if known and chance.random() < 0.8 else None
    if isinstance(value, list):
        value.insert(chance.randint(0, len(value)), _copy(chance.choice(model) if model else _any(chance)))
    elif model:
        name = chance.choice(list(model))
        value[name] = _copy(model[name])
    else:
        value[chance.choice(WORDS if chance.random() < 0.8 else HOSTILE_TEXTS)] = _any(chance)


def _edit(place: _Place, chance: Chance, seen: Seen) -> None:
    """A text or a number; JSON in a text is bent as JSON."""
    value = place.value
    if isinstance(value, str):
        inner = [inner_document(value)]
        if inner[0] is not None and chance.random() < 0.9:
            _bend(inner, place.name, chance, seen)
            place.holder[place.key] = _text(inner[0])
        else:
            place.holder[place.key] = _bent_text(value, chance, WORDS)
    elif isinstance(value, int | float):
        place.holder[place.key] = chance.choice((chance.choice(HOSTILE_NUMBERS), str(value), -value, value + 1))


def _bent_text(text: str, chance: Chance, words: Sequence[str]) -> str:
    """``text``, changed in one place."""
    pieces = _TOKENS.findall(text) or [""]
    at = chance.randrange(len(pieces))
    match chance.randrange(6):
        case 0:
            pieces[at] = chance.choice(HOSTILE_TEXTS)
        case 1:
            pieces[at:at] = [chance.choice(words)]
        case 2:
            del pieces[at : at + chance.choice((1, 1, 2, 10))]
        case 3:
            pieces[at:at] = pieces[at : at + chance.choice((1, 4, 12))] * chance.choice(MANY)
        case 4:
            pieces[at] = pieces[at][:-1] + chr(chance.choice((0, 9, 10, 32, 34, 39, 44, 58, 59, 127, 133, 0x202E)))
        case _:
            pieces[at] = str(chance.choice(HOSTILE_NUMBERS))
    return "".join(pieces)


def _any(chance: Chance) -> Any:
    return _copy(chance.choice(WORDS if chance.random() < 0.2 else HOSTILE_VALUES))


def _places(holder: list[Any], name: str, *, are_texts_read: bool = True) -> Iterator[_Place]:
    """Of all values in ``holder[0]``, that one first."""
    found = [_Place(holder, 0, name)]
    for place in found:  # which grows
        yield place
        value = inner_document(place.value) if are_texts_read and isinstance(place.value, str) else place.value
        if isinstance(value, dict):
            found += [_Place(value, key, key) for key in value]
        elif isinstance(value, list):
            found += [_Place(value, index, place.name) for index in range(len(value))]


def _numbered(value: Any, number: int) -> Any:
    """With another name, if it is a thing that has one."""
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        value["name"] += str(number)
    return value


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value)) if isinstance(value, dict | list) else value


def _text(document: Any) -> str:
    text = json.dumps(document, separators=(",", ":"))
    return _MARKED.sub(lambda found: RAW[found[0]], text) if "@" in text else text

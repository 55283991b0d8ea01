"""Bends inputs by chance: JSON by its structure, other texts by lines and words. Equal chance gives equal inputs."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from tests.fuzz.vocabulary import HOSTILE_NUMBERS, HOSTILE_TEXTS, HOSTILE_VALUES, RAW, Vocabulary, inner_document

Chance: TypeAlias = Random
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
    """What the vocabulary calls the holder."""

    @property
    def value(self) -> Any:
        return self.holder[self.key]

    @property
    def own_name(self) -> str:
        """What the vocabulary calls the value."""
        return self.key if isinstance(self.key, str) else self.name


class JsonMutator:
    """Bends JSON documents.

    Args:
        vocabulary: What may stand where.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._known = vocabulary
        self._changes: Sequence[Callable[[list[_Place], Chance], None]] = (
            self._replace,
            self._replace,
            self._add_member,
            self._add_member,
            self._add_member,
            self._add_entry,
            self._edit,
            self._edit,
            self._edit,
            self._delete,
            self._repeat,
            self._transplant,
            self._rename,
            self._shuffle,
        )

    def mutate(self, data: bytes, chance: Chance) -> bytes | None:
        """``data``, bent in one to four places; ``None`` if it is no JSON object or list."""
        root = _decode(data)
        if root is None:
            return None
        holder = [root]
        for _ in range(1 + min(3, int(chance.expovariate(1)))):
            self._change(holder, chance)
        return _encode(holder[0])

    def cross(self, data: bytes, other: bytes, chance: Chance) -> bytes | None:
        """``data`` with a part of ``other`` in a place of the same name; ``None`` if they have none."""
        root, donor = _decode(data), _decode(other)
        if root is None or donor is None:
            return None
        places = _places([root], "")
        given: dict[str, list[Any]] = {}
        for place in _places([donor], ""):
            given.setdefault(place.own_name, []).append(place.value)
        fitting = [place for place in places if place.own_name and place.own_name in given]
        if not fitting:
            return None
        place = chance.choice(fitting)
        place.holder[place.key] = chance.choice(given[place.own_name])
        return _encode(root)

    def _change(self, holder: list[Any], chance: Chance) -> None:
        places = _places(holder, "")
        chance.choice(self._changes)(places, chance)

    def _replace(self, places: list[_Place], chance: Chance) -> None:
        place = _inner(places, chance)
        seen = self._known.members.get(place.name, {}).get(place.key, []) if isinstance(place.key, str) else []
        place.holder[place.key] = _copy(chance.choice(seen) if seen and chance.random() < 0.6 else self._any(chance))

    def _any(self, chance: Chance) -> Any:
        return chance.choice(self._known.words) if chance.random() < 0.2 else chance.choice(HOSTILE_VALUES)

    def _add_member(self, places: list[_Place], chance: Chance) -> None:
        objects = [place for place in places if isinstance(place.value, dict)]
        if not objects:
            return
        place = chance.choice(objects)
        known = self._known.members.get(place.own_name)
        if known and chance.random() < 0.8:
            name = chance.choice(list(known))
            place.value[name] = _copy(chance.choice(known[name]))
        else:
            name = chance.choice(self._known.words if chance.random() < 0.8 else HOSTILE_TEXTS)
            place.value[name] = _copy(self._any(chance))

    def _add_entry(self, places: list[_Place], chance: Chance) -> None:
        lists = [place for place in places if isinstance(place.value, list)]
        if not lists:
            return
        place = chance.choice(lists)
        known = self._known.entries.get(place.own_name, [])
        entry = chance.choice(known) if known and chance.random() < 0.9 else self._any(chance)
        place.value.insert(chance.randint(0, len(place.value)), _copy(entry))

    def _edit(self, places: list[_Place], chance: Chance) -> None:
        scalars = [place for place in places if isinstance(place.value, str | int | float)]
        if not scalars:
            return
        place = chance.choice(scalars)
        value = place.value
        if not isinstance(value, str):
            place.holder[place.key] = chance.choice((chance.choice(HOSTILE_NUMBERS), str(value), -value, value + 1))
            return
        inner = inner_document(value)
        if inner is not None and chance.random() < 0.9:
            holder = [inner]
            # The places of an inner document are called like those of the text that it stands in.
            chance.choice(self._changes)(_places(holder, place.own_name), chance)
            place.holder[place.key] = _text(holder[0])
        else:
            place.holder[place.key] = bend_text(value, chance, self._known.words)

    def _delete(self, places: list[_Place], chance: Chance) -> None:
        place = _inner(places, chance)
        if place is not places[0]:
            del place.holder[place.key]

    def _repeat(self, places: list[_Place], chance: Chance) -> None:
        inner = [place for place in places[1:] if isinstance(place.holder, list) or place.name == "annotations"]
        if not inner:
            return
        place, times = chance.choice(inner), chance.choice(MANY)
        if isinstance(place.holder, list):
            alike = chance.random() < 0.3
            copies = [_copy(place.value) if alike else _numbered(_copy(place.value), time) for time in range(times)]
            place.holder[place.key : place.key] = copies
        else:
            for time in range(times):
                place.holder[f"{place.key}{time}"] = place.value

    def _transplant(self, places: list[_Place], chance: Chance) -> None:
        source, target = _inner(places, chance), _inner(places, chance)
        value = _copy(source.value)
        target.holder[target.key] = value

    def _rename(self, places: list[_Place], chance: Chance) -> None:
        members = [place for place in places if isinstance(place.holder, dict)]
        if not members:
            return
        place = chance.choice(members)
        value = place.holder.pop(place.key)
        words = self._known.words if chance.random() < 0.5 else list(self._known.members.get(place.name) or [""])
        new = chance.choice(words) if chance.random() < 0.8 else bend_text(place.key, chance, self._known.words)
        place.holder[new] = value

    def _shuffle(self, places: list[_Place], chance: Chance) -> None:
        lists = [place.value for place in places if isinstance(place.value, list) and len(place.value) > 1]
        if lists:
            chance.shuffle(chance.choice(lists))


class TextMutator:
    """Bends texts that are no JSON.

    Args:
        seeds: Where words are taken from.
    """

    def __init__(self, seeds: Sequence[bytes]) -> None:
        found = {token for seed in seeds for token in _TOKENS.findall(seed.decode(errors="replace"))}
        self._words = sorted(found)
        self._lines = sorted({line for seed in seeds for line in seed.decode(errors="replace").splitlines()})

    def mutate(self, data: bytes, chance: Chance) -> bytes | None:
        """``data``, bent in one to four places."""
        text = data.decode("utf-8", "surrogateescape")
        for _ in range(1 + min(3, int(chance.expovariate(1)))):
            text = self._lines_bent(text, chance) if chance.random() < 0.5 else bend_text(text, chance, self._words)
        return text.encode("utf-8", "surrogateescape" if _is_escaped(text) else "surrogatepass")

    def cross(self, data: bytes, other: bytes, chance: Chance) -> bytes | None:
        """The beginning of one and the end of the other."""
        one, two = data.splitlines(keepends=True), other.splitlines(keepends=True)
        return b"".join(one[: chance.randint(0, len(one))] + two[chance.randint(0, len(two)) :])

    def _lines_bent(self, text: str, chance: Chance) -> str:
        lines = text.splitlines(keepends=True) or [""]
        at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
        match chance.randrange(5):
            case 0:
                del lines[at : at + chance.choice((1, 1, 1, 5))]
            case 1:
                lines[at:at] = lines[at : at + chance.choice((1, 3))] * chance.choice(MANY)
            case 2:
                lines[at], lines[to] = lines[to], lines[at]
            case 3 if self._lines:
                lines[at:at] = [chance.choice(self._lines) + "\n"]
            case _:
                lines[at] = bend_text(lines[at], chance, self._words)
        return "".join(lines)


def bend_text(text: str, chance: Chance, words: Sequence[str]) -> str:
    """``text``, changed in one place."""
    pieces = _TOKENS.findall(text) or [""]
    at = chance.randrange(len(pieces))
    match chance.randrange(7):
        case 0:
            pieces[at] = chance.choice(HOSTILE_TEXTS)
        case 1:
            pieces[at:at] = [chance.choice(words) if words else "a"]
        case 2:
            del pieces[at : at + chance.choice((1, 1, 2, 10))]
        case 3:
            pieces[at:at] = pieces[at : at + chance.choice((1, 4, 12))] * chance.choice(MANY)
        case 4:
            pieces[at] = pieces[at][:-1] + chr(chance.choice((0, 9, 10, 32, 34, 39, 44, 58, 59, 127, 133, 0x202E)))
        case 5:
            to = chance.randrange(len(pieces))
            pieces[at], pieces[to] = pieces[to], pieces[at]
        case _:
            pieces[at] = str(chance.choice(HOSTILE_NUMBERS))
    return "".join(pieces)


def _places(holder: list[Any], name: str) -> list[_Place]:
    """Of all values in ``holder[0]``, that one first."""
    found = [_Place(holder, 0, name)]
    for place in found:  # which grows
        value, own = place.value, place.own_name
        if isinstance(value, dict):
            found += [_Place(value, key, own) for key in value]
        elif isinstance(value, list):
            found += [_Place(value, index, own) for index in range(len(value))]
    return found


def _inner(places: list[_Place], chance: Chance) -> _Place:
    """Any place but that of the document itself, if there is another."""
    return places[chance.randrange(1, len(places))] if len(places) > 1 else places[0]


def _numbered(value: Any, number: int) -> Any:
    """With another name, if it is a thing that has one."""
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        value["name"] += str(number)
    return value


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value)) if isinstance(value, dict | list) else value


def _decode(data: bytes) -> Any:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict | list) else None


def _text(document: Any) -> str:
    text = json.dumps(document, separators=(",", ":"))
    return _MARKED.sub(lambda found: RAW[found[0]], text) if "@" in text else text


def _encode(document: Any) -> bytes | None:
    try:
        return _text(document).encode()
    except (ValueError, RecursionError):
        return None


def _is_escaped(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True

"""Takes out of texts what tells whose machine it is, and keeps which values are the same.

A UUID, a serial number or the name of a host says nothing about NVLink. That two files mean the same card does. So each
value gets a placeholder of its own, in the order in which the values are met.
"""

import re
from collections.abc import Iterable, Mapping

from webhook.words.secret_forms import without_secrets

_SHORTEST = 2
"""Characters of a name that is taken out wherever it stands."""
_UUID = re.compile(r"\b(GPU-|MIG-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_MAC = re.compile(r"\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b")
_IPV4 = re.compile(r"\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b(?![.\d])")
_HEX = "[0-9a-fA-F]{1,4}"
_IPV6 = re.compile(
    rf"(?<![:\w.])(?:(?:{_HEX}:){{7}}{_HEX}|(?:{_HEX}:){{1,6}}:(?:{_HEX}(?::{_HEX}){{0,5}})?)(?:%\w{{1,15}})?(?![:\w.])"
)
"""Whole, or with ``::``: a time of day and a PCI bus id are neither."""
_LABELLED = re.compile(
    r"""(?P<label>serial(?:[ _]number)?|chassis[ _]serial(?:[ _]number)?|board[ _]?id|pdi|gpu[ _]fabric[ _]guid"""
    r"""|clique[ _]?uuid|host[ _]?name|machine[ _]?id)(?P<mark>["']?\s*[:=>]\s*["']?)(?P<value>[^\s"'<,;]{3,128})""",
    re.IGNORECASE,
)
_GUID = re.compile(r"(?<![\w:])(?:0x[0-9a-fA-F]{16}|(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4})(?![\w:])")
"""Of a node, a port or an HCA of InfiniBand, and of NVLink fabrics."""
_ROOT = re.compile(r"(?<![\w/])/root/(?P<path>[^\s\"':,]{1,512})")
_HOME = re.compile(r"(?<![\w/])/(?P<root>home|Users)/(?P<user>[^/\s\"':,]{1,64})")
_IMAGE = re.compile(
    r"\b[a-z0-9][a-z0-9.-]{1,200}(?::\d{2,5})?/[a-z0-9][\w./-]{1,200}(?::[\w.-]{1,128}|@sha256:[0-9a-f]{64})"
)
_ABSENT = frozenset({"n/a", "[n/a]", "none", "unknown", "not", "0", "0x0", "0x0000000000000000"})
_LOOPBACK = frozenset({"0.0.0.0", "127.0.0.1"})  # noqa: S104 - compared with, not listened on


class Redactor:
    """Redacts the texts of one archive.

    Args:
        named: Names that are taken out wherever they stand, such as those of hosts, by what they name.
    """

    def __init__(self, named: Mapping[str, str]) -> None:
        self._seen: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        words = {word: kind for word, kind in named.items() if len(word) >= _SHORTEST}
        self._named = {word.lower(): self._placeholder(kind, word.lower()) for word, kind in words.items()}
        self._words = _any_of(words)

    @property
    def values(self) -> int:
        """How many different values were taken out."""
        return len(self._seen)

    def text(self, text: str) -> str:
        """``text`` without them."""
        text = without_secrets(text)
        if self._words:
            text = self._words.sub(lambda found: self._named[found[0].lower()], text)
        text = _UUID.sub(self._uuid, text)
        text = _LABELLED.sub(self._labelled, text)
        text = _GUID.sub(lambda found: self._placeholder("guid", found[0].lower()), text)
        text = _MAC.sub(lambda found: self._placeholder("mac", found[0].lower()), text)
        text = _IMAGE.sub(lambda found: self._placeholder("image", found[0]), text)
        text = _ROOT.sub(lambda found: f"/root/{self._placeholder('path', found['path'])}", text)
        text = _HOME.sub(lambda found: f"/{found['root']}/{self._placeholder('user', found['user'])}", text)
        text = _IPV4.sub(self._address, text)
        return _IPV6.sub(self._address, text)

    def _placeholder(self, kind: str, value: str) -> str:
        key = (kind, value)
        if key not in self._seen:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._seen[key] = f"{kind}-{self._counts[kind]}"
        return self._seen[key]

    def _uuid(self, found: re.Match[str]) -> str:
        """In the form of a UUID, so that what reads the files reads them still."""
        prefix, value = found[1] or "", found[0].lower()
        number = self._placeholder("uuid", value.removeprefix(prefix.lower())).partition("-")[2]
        return f"{prefix}00000000-0000-0000-0000-{int(number):012d}"

    def _labelled(self, found: re.Match[str]) -> str:
        value = found["value"]
        if value.lower() in _ABSENT:
            return found[0]
        kind = re.sub(r"[ _]+", "-", found["label"].lower())
        return f"{found['label']}{found['mark']}{self._placeholder(kind, value)}"

    def _address(self, found: re.Match[str]) -> str:
        return found[0] if found[0] in _LOOPBACK else self._placeholder("ip", found[0].lower())


def _any_of(words: Iterable[str]) -> re.Pattern[str] | None:
    """The longest first: one host may be called as the beginning of another."""
    every = sorted(words, key=len, reverse=True)
    return (
        re.compile(r"(?<![\w-])(?:" + "|".join(map(re.escape, every)) + r")(?![\w-])", re.IGNORECASE) if every else None
    )

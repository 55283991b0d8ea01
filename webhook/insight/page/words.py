"""The texts of the page in each of its languages; sentences about findings stay English."""

import enum
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

_MOST_RANGES = 20


class Language(enum.StrEnum):
    """The language of the page; the values are language tags of HTML."""

    ENGLISH = "en"
    CHINESE = "zh"


_DEFAULT = Language.ENGLISH


class Words:
    """The texts of one language.

    Args:
        language: The language.
        texts: The texts by key.
    """

    def __init__(self, language: Language, texts: Mapping[str, str]) -> None:
        self.language = language
        self.texts = texts

    def __call__(self, key: str, **values: object) -> str:
        """Returns a text with its placeholders filled.

        Raises:
            KeyError: there is no such text, or a value for a placeholder is missing.
        """
        text = self.texts[key]
        return text.format(**values) if values else text


@cache
def words(language: Language) -> Words:
    """Returns the texts of a language."""
    text = files(__package__).joinpath("texts", f"{language}.json").read_bytes()
    return Words(language, msgspec.json.decode(text, type=dict[str, str]))


def chosen(accepted: str) -> Language:
    """Returns the language that a browser prefers: RFC 9110, ``Accept-Language``."""
    best, weight = _DEFAULT, 0.0
    for part in accepted.split(",")[:_MOST_RANGES]:
        tag, _, parameter = part.strip().partition(";")
        language = next((each for each in Language if tag.lower().split("-")[0] == each), None)
        found = _weight(parameter.strip())
        if language and found > weight:
            best, weight = language, found
    return best


def _weight(parameter: str) -> float:
    try:
        return float(parameter.removeprefix("q=")) if parameter else 1.0
    except ValueError:
        return 0.0

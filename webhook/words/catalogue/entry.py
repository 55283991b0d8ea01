"""The entries of the catalogue, and the messages that they become for one pod, Binding or node."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Message:
    """An entry with its values filled in."""

    code: str
    text: str
    fix: str = ""
    """The advice what to do about it; empty if there is nothing to do."""

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"

    def about(self, holder: str) -> str:
        """Returns the message as a text about an object."""
        return f"{self.code}: {holder}: {self.text}"

    @property
    def advice(self) -> str:
        """The text with its advice, for answers that are read without the documents at hand."""
        return f"{self}. {self.fix}" if self.fix else str(self)


def join(messages: Sequence[Message]) -> Message:
    """Returns several messages of one code, at least one, as one message."""
    first = messages[0]
    return Message(first.code, "; ".join(message.text for message in messages), first.fix)


def join_all(messages: Sequence[Message]) -> Message:
    """Returns several messages, at least one, as one message with the code of the first and the advice of all."""
    first, *others = dict.fromkeys(messages)
    fixes = dict.fromkeys(message.fix for message in messages if message.fix)
    return Message(first.code, "; ".join([first.text, *map(str, others)]), ". ".join(fixes))


@dataclass(frozen=True, slots=True)
class Entry:
    """A sentence of the catalogue for users.

    ``text`` and ``fix`` are templates of :meth:`str.format`. Values are inserted as they are: the code that shows the
    message escapes it.
    """

    code: str
    """The code: ``GT``, the digit of the area, and two digits."""
    text: str
    """A clause without a full stop, because other text may follow it."""
    fix: str = ""
    """The advice what to do about it, in the imperative, without a full stop."""
    page: str = ""
    """The page of ``docs/`` that says more, perhaps with an anchor."""
    example: str = ""
    """The text of one case, for an entry whose text has nothing but values."""

    @property
    def sentence(self) -> str:
        """The text by itself, for entries without values."""
        return f"{self.text[:1].upper()}{self.text[1:]}."

    @property
    def pattern(self) -> Message:
        """The message for a reference: the names of its values in capitals stand for them."""
        return Message(self.code, _capitals(self.text), _capitals(self.fix))

    @property
    def advice(self) -> str:
        """The fix for a reference, as a sentence."""
        return f"{self.pattern.fix}." if self.fix else "There is nothing to do."

    def say(self, **values: object) -> Message:
        """Returns the message for one case.

        Raises:
            KeyError: a name of the templates has no value.
        """
        return Message(self.code, self.text.format(**values), self.fix.format(**values))


def _capitals(template: str) -> str:
    return _FIELD.sub(lambda field: field[1].upper(), template)

"""An entry of the catalogue, and the message that it becomes for one pod, Binding or node."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Message:
    """An entry, filled in."""

    code: str
    text: str
    fix: str = ""
    """What to do about it; empty if there is nothing to do."""

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"

    def about(self, holder: str) -> str:
        """Returns the same, said of an object."""
        return f"{self.code}: {holder}: {self.text}"

    @property
    def advice(self) -> str:
        """The text with what to do about it, for answers that are read without the documents at hand."""
        return f"{self}. {self.fix}" if self.fix else str(self)


def join(messages: Sequence[Message]) -> Message:
    """Several messages of one code as one; at least one."""
    first = messages[0]
    return Message(first.code, "; ".join(message.text for message in messages), first.fix)


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that users are told.

    ``text`` and ``fix`` are templates of :meth:`str.format`. Values are put in as they are: whoever shows the message
    escapes it.
    """

    code: str
    """``GT``, the area, and two digits."""
    text: str
    """A clause without a full stop, because other text may follow it."""
    fix: str = ""
    """What to do about it, in the imperative, without a full stop."""
    page: str = ""
    """Where the documents say more: a page of ``docs/``, perhaps with an anchor."""

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

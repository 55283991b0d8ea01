"""Parts of a document that a program writes, between two comments that name the program."""

from collections.abc import Iterable


class Part:
    """A part of a document, with the comments around it.

    Args:
        module: The program: ``python -m MODULE``.
        name: Which of the program's parts, where it writes several.
    """

    def __init__(self, module: str, name: str = "") -> None:
        which = f" {name}" if name else ""
        self.begin = f"<!-- python -m {module}: begin{which} -->\n"
        self.end = f"<!-- python -m {module}: end{which} -->\n"

    def written(self, text: str, lines: Iterable[str]) -> str:
        """The document with these lines in the part; what stands around it stays.

        Args:
            text: The document as it is.
            lines: Without their ends.

        Raises:
            ValueError: the document has no such part.
        """
        if self.begin not in text or self.end not in text:
            raise ValueError(f"expected the lines {self.begin.strip()} and {self.end.strip()}, found neither or one")
        head, _, rest = text.partition(self.begin)
        body = "".join(f"{line}\n" for line in ("", *lines, ""))
        return head + self.begin + body + self.end + rest.partition(self.end)[2]


def row(cells: Iterable[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"

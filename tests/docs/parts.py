"""Parts of a document that a program writes, between two comments that name the program."""

from collections.abc import Iterable


class Part:
    """One of them.

    Args:
        module: The program: ``python -m MODULE``.
    """

    def __init__(self, module: str) -> None:
        self.begin = f"<!-- python -m {module}: begin -->\n"
        self.end = f"<!-- python -m {module}: end -->\n"

    def written(self, text: str, lines: Iterable[str]) -> str:
        """The document with these lines in the part; what stands around it stays.

        Args:
            text: The document as it is.
            lines: Without their ends.
        """
        head, _, rest = text.partition(self.begin)
        body = "".join(f"{line}\n" for line in ("", *lines, ""))
        return head + self.begin + body + self.end + rest.partition(self.end)[2]


def row(cells: Iterable[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"

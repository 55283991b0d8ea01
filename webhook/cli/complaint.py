"""The messages of commands on standard error. Control characters in foreign texts are escaped."""

import typer

from webhook.words.printable import fitted

_LINE_LIMIT = 16 * 1024


def complain(text: str) -> None:
    """Write ``text`` with its lines. Each line is escaped and bounded."""
    typer.echo("\n".join(fitted(line, _LINE_LIMIT) for line in text.split("\n")), err=True)

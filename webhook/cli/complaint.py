"""What the commands say on standard error: texts from files and from the cluster must not move a terminal."""

import typer

from webhook.words.printable import fitted

_LINE_LIMIT = 16 * 1024


def complain(text: str) -> None:
    """Write ``text``, whose lines stay lines; each is escaped and bounded."""
    typer.echo("\n".join(fitted(line, _LINE_LIMIT) for line in text.split("\n")), err=True)

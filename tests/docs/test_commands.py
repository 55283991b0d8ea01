"""The commands of gpu-topology and the targets of make that documents name exist."""

import re
import shlex
from typing import Any

import typer

from tests.docs.test_docs import ROOT, rows, text
from tests.docs.test_operations import codes
from webhook.cli.main import app

PAGES = sorted(
    str(path.relative_to(ROOT))
    for folder in (ROOT, ROOT / "docs", ROOT / "docs/stories")
    for path in folder.glob("*.md")
)
PROGRAM: Any = typer.main.get_command(app)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TYPED = re.compile(r"(?:^\$|\|) (?:\.venv/bin/)?gpu-topology ([a-z][^|;>#\n]*)", re.MULTILINE)
_MAKE = re.compile(r"(?:^\$ |`)make ([a-z-]+)\b", re.MULTILINE)


def typed(page: str) -> list[str]:
    """The arguments of each ``gpu-topology`` in the console blocks of a page."""
    return [arguments for block in _CONSOLE.findall(text(page)) for arguments in _TYPED.findall(block)]


def parse(arguments: str) -> None:
    """Parse the arguments as the program does.

    Raises:
        click.exceptions.UsageError: there is no such command or option.
    """
    command, words = PROGRAM, shlex.split(arguments)
    while hasattr(command, "commands"):
        assert words[0] in command.commands, words[0]
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, words)


def test_a_command_that_a_document_shows_is_understood() -> None:
    for arguments in sorted({command for page in PAGES for command in typed(page)}):
        parse(arguments)


def test_the_pipe_of_the_readme_is_among_them() -> None:
    assert "explain -f -" in typed("README.md")


def test_the_page_of_the_command_line_has_every_command() -> None:
    (table, *_) = text("docs/command-line.md").split("\n## ")
    documented = {codes(row[0])[0] for row in rows(table) if codes(row[0])}
    assert documented == {name for name, command in PROGRAM.commands.items() if not command.hidden}


def test_the_targets_of_make_that_a_document_names_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    for page in PAGES:
        if page != "CHANGELOG.md":  # it tells of targets that have left
            assert set(_MAKE.findall(text(page))) <= targets, page

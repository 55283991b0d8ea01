"""Calls the command line with a terminal, as a person does."""

from pathlib import Path

from tests.cli.command import Terminal, call

ESCAPE = "\x1b"


def on_terminal(*arguments: str | Path, width: int = 80, **environment: str) -> tuple[int, str]:
    """Exit code, and what a terminal with colours and as many columns gets from ``gpu-topology``."""
    terminal = Terminal()
    settings = {"TERM": "xterm-256color", "COLUMNS": str(width), "LINES": "40"} | environment
    code = call(*arguments, out=terminal, err=terminal, env=settings)
    return code, terminal.text()

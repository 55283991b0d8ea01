"""Calls a program of the command line in this process, with a descriptor for its log."""

import logging
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.cli.command import ROOT, Done, Stream, call


def called(*arguments: str | Path, env: Mapping[str, str] = {}, cwd: Path = ROOT) -> Done:
    """Call ``gpu-topology`` with these arguments; programs write their log to the descriptor of standard output."""
    err = Stream(errors="backslashreplace")
    with NamedTemporaryFile("w+", encoding="utf-8") as out:
        try:
            code = call(*arguments, out=out, err=err, env=env, cwd=cwd)  # type: ignore[arg-type]  # it is a text stream
        finally:
            logging.captureWarnings(capture=False)
        out.flush()
        return Done(code, Path(out.name).read_text(encoding="utf-8"), err.text())

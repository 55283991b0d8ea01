"""What ``gpu-topology`` says about itself: help, version, completion, and what the values of options are called."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tests.cli.command import gpu_topology
from webhook import __version__
from webhook.cli.main import app
from webhook.programs.remap.program import main as remap

BARE_TYPE = re.compile(r" --.* (?:<(?:str|path|int|float)>|TEXT|PATH|FILENAME|INTEGER|FLOAT) ")
"""A line of help about an option whose value has no name, so that typer shows its type."""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that call each command that does something."""
    children = getattr(command, "commands", {})
    if not children:
        yield path
    for name, child in children.items():
        yield from commands(child, (*path, name))


COMMANDS = [path for path in commands(typer.main.get_command(app)) if path != ("remap",)]  # argparse, see below


def test_every_value_of_an_option_has_a_name_that_says_what_it_is() -> None:
    for path in COMMANDS:
        said = gpu_topology(*path, "--help").out
        assert BARE_TYPE.findall(said) == [], path


def test_the_remap_program_names_the_values_of_its_options_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        remap(["-h"])
    usage = capsys.readouterr().out.partition("\n\n")[0]
    for option in ("--directory DIR", "--termination-log FILE", "--deadline SECONDS", "--root DIR"):
        assert f"[{option}]" in usage


@pytest.mark.parametrize("arguments", [(), ("inject",), ("topology", "show"), ("certs",), ("remap",)], ids=" ".join)
def test_the_short_option_shows_the_same_help_as_the_long_one(arguments: tuple[str, ...]) -> None:
    short, long = gpu_topology(*arguments, "-h"), gpu_topology(*arguments, "--help")
    assert (short.code, short.err) == (0, "")
    assert short.out == long.out
    assert "usage" in short.out.lower()


def test_the_version_is_a_command_and_an_option() -> None:
    for arguments in (("version",), ("--version",)):
        done = gpu_topology(*arguments)
        assert (done.code, done.out, done.err) == (0, f"{__version__}\n", "")


def test_what_runs_in_pods_is_in_a_group_of_its_own() -> None:
    said = gpu_topology("--help", env={"COLUMNS": "80"}).out
    titles = [line for line in said.splitlines() if line.startswith("╭")]
    _, _, in_pods = said.partition(titles[-1])
    assert " Run in pods" in titles[-1]
    assert re.findall(r"^│ ([a-z]+)", in_pods, re.MULTILINE) == ["serve", "agent", "remap", "place"]
    assert not any(" Commands " in title for title in titles)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gpu-topology in", ["inject"]),
        ("gpu-topology topology s", ["show"]),
        ("gpu-topology explain --kubec", ["--kubeconfig"]),
        ("gpu-topology nothing-like-this", []),
    ],
)
def test_the_shell_completes_commands_and_options(words: str, expected: list[str]) -> None:
    environment = {
        "_GPU_TOPOLOGY_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = gpu_topology(env=environment)
    assert (done.code, done.err) == (0, "")
    assert done.out.split() == expected

"""``python -m tests.control_plane.attacks [NUMBER...]``: attacks on the webhook at a real API server, with figures.

While each of them happens, somebody else creates pods in another namespace. Memory is the most that was resident; it
and all times describe this machine, which everything shares.

Exit codes: 0 every attack held off, 1 one was not, or a program failed.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.control_plane.attacks.pods import ATTACKS
from tests.control_plane.attacks.replay import Attack, replay, report
from tests.control_plane.attacks.stage import running_stage
from tests.control_plane.command import run_command
from tests.control_plane.control_plane import Binaries
from tests.nvml.library import compile_stub


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    attacks = {attack.number: attack for attack in ATTACKS}
    parser = argparse.ArgumentParser(
        prog="python -m tests.control_plane.attacks", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help=f"up to {len(attacks)}; all if none is")
    numbers = parser.parse_args(arguments).numbers or list(attacks)
    if unknown := set(numbers) - attacks.keys():
        parser.error(f"there is no attack {min(unknown)}")
    return run_command("attacks", partial(_replay, [attacks[number] for number in numbers]))


def _replay(attacks: Sequence[Attack], binaries: Binaries, directory: Path) -> int:
    compile_stub(directory / "nvml")
    (directory / "stage").mkdir()
    with running_stage(binaries, directory / "stage", directory / "nvml") as stage:
        all_figures = []
        for attack in attacks:
            print(f"{attack.number}. {attack.name} ...", flush=True)
            all_figures.append(replay(attack, stage))
    report(all_figures)
    return 1 if any(figures.faults for figures in all_figures) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

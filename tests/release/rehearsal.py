"""``python -m tests.release.rehearsal DIRECTORY [STEP ...]``: a release without a registry, made twice and compared.

Each of the two is made of a checkout of its own, in another place and with other times of files. The images are built
too, each instruction anew, where buildah and mmdebstrap are. The exit code is 1 if a step failed, or if files differ.
"""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.image.build import BuildError, Stamp, missing, save_layouts
from tests.release.steps import ROOT, STEPS, NotPossible, digests, run
from webhook import __version__

IMAGES = "images"
BEYOND = {
    "images for arm64": "only the workflow has BuildKit with QEMU",
    "SBOM and provenance of the images": "BuildKit attaches them",
    "signatures": "cosign signs as the workflow, with the identity of the forge",
    "push of images and chart": "needs the registry and its token",
    "upload to the package index": "needs trusted publishing",
}
"""Parts of a release that no machine of a person can try, and why."""


@dataclass(frozen=True, slots=True)
class Row:
    """A file of the release, or a part that was not made."""

    what: str
    size: int = 0
    sha256: str = ""
    verdict: str = "same"
    """``same`` or ``DIFFERENT`` bytes, ``FAILED``, or ``not tried``."""
    why: str = ""


Step = Callable[[Path, Path], None]


def rehearse(directory: Path, steps: Mapping[str, Step]) -> list[Row]:
    """Make everything twice, into ``directory/1`` and ``directory/2``, and compare."""
    rows: list[Row] = []
    left: dict[str, Row] = {}
    for number in (1, 2):
        release = directory / str(number)
        shutil.rmtree(release, ignore_errors=True)
        release.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as place:
            source = checkout(Path(place, str(number)), seconds=1_000_000_000 * number)
            for name, step in steps.items():
                if name not in left and (row := _tried(name, step, source, release)):
                    left[name] = row
    first, second = (digests(directory / str(number)) for number in (1, 2))
    whole = [name for name in sorted(first | second) if name.partition("/")[0] not in left]
    for name in whole:  # a step that failed once has not made its files twice
        verdict = "same" if first.get(name) == second.get(name) else "DIFFERENT"
        kept = next(path for number in (1, 2) if (path := directory / str(number) / name).exists())
        rows.append(Row(name, kept.stat().st_size, first.get(name, second.get(name, "")), verdict))
    return [*rows, *left.values()]


def _tried(name: str, step: Step, source: Path, release: Path) -> Row | None:
    """What is to be said of a step that made nothing."""
    try:
        step(source, release)
    except NotPossible as error:
        return Row(name, verdict="not tried", why=str(error))
    except (RuntimeError, ValueError, OSError, BuildError, subprocess.CalledProcessError) as error:
        return Row(name, verdict="FAILED", why=str(error) or repr(error))
    return None


def checkout(target: Path, *, seconds: int) -> Path:
    """A copy of the files that git tracks, as they are now, all of this time, and return it."""
    for name in run("git", "ls-files", "-z", cwd=ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            copied = target / name
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copied)
            executable = copied.stat().st_mode & stat.S_IXUSR
            copied.chmod(0o755 if executable else 0o644)
            os.utime(copied, (seconds, seconds))
    return target


def images(source: Path, release: Path, revision: str) -> None:
    """Both images of this machine's platform, as OCI layouts."""
    if reason := missing():
        raise NotPossible(reason)
    (release / IMAGES).mkdir()
    save_layouts(release / IMAGES, source, Stamp(__version__, revision), anew=True)


def show(rows: Sequence[Row], console: Console) -> None:
    """The table, and below it what is beyond a rehearsal."""
    table = Table("what", "bytes", "sha256", "twice", box=None)
    for row in rows:
        size = f"{row.size:,}" if row.sha256 else "-"
        why = f": {row.why}" if row.verdict == "not tried" else ""
        table.add_row(row.what, size, row.sha256[:16] or "-", row.verdict + why)
    for what, why in BEYOND.items():
        table.add_row(what, "-", "-", f"not tried: {why}")
    console.print(table)
    for row in rows:
        if row.verdict == "FAILED":
            console.print(f"\n{row.what}: {row.why}", markup=False)


def main(directory: Path, names: Sequence[str]) -> int:
    """Rehearse, print the table, and return the exit code."""
    revision = run("git", "rev-parse", "HEAD", cwd=ROOT).strip()  # once: a person may commit between the two
    known: dict[str, Step] = {IMAGES: partial(images, revision=revision), **STEPS}
    if unknown := [name for name in names if name not in known]:
        print(f"expected some of {', '.join(known)}, found {', '.join(unknown)}", file=sys.stderr)
        return 2
    rows = rehearse(directory, {name: step for name, step in known.items() if not names or name in names})
    show(rows, Console(width=200 if not sys.stdout.isatty() else None, soft_wrap=True))
    return int(any(row.verdict in {"FAILED", "DIFFERENT"} for row in rows))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("expected a directory, and perhaps names of steps")
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

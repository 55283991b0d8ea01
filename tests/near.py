"""``python -m tests.near``: runs for a minute the tests that are nearest to what changed.

Changed files are those that differ from the common ancestor with the branch ``main``, uncommitted ones included. The
distance of a test is the number of imports on the shortest way from its module to a changed module. Besides,

- a module that names a changed file of data imports it, as it were; its name is one step further than its whole path,
  and each folder around it one step more;
- a test imports each ``conftest.py`` of its folders;
- a test in the folder of the same name, which runs the program and imports nothing of it, has the distance 2.

Each folder that the paths have in common is worth one import: ``tests/decisions/admit/test_x.py`` is nearer to
``webhook/decisions/admit/x.py`` than others are. Of equal tests those go first that import the fewest modules.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path, PurePosixPath

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("webhook", "certs", "tests", "bench")
CONTROL_PLANE = "tests/control_plane/"
AT_A_TIME = 10
"""The number of modules that run before the clock is read again."""
OF_ONE_FOLDER = 8
"""The modules of one folder after which the next ones count as one import further, so that others have their turn."""


@dataclass(frozen=True)
class House:
    """The checkout: its modules and their imports.

    Attributes:
        imports: The modules that each module itself imports, by their paths.
        texts: The text of each module, by its path.
    """

    imports: Mapping[str, Set[str]]
    texts: Mapping[str, str]

    @cached_property
    def tests(self) -> list[str]:
        """The paths of all modules with tests."""
        return sorted(path for path in self.texts if path.startswith("tests/") and "/test_" in path)

    def ranked(self, changed: Iterable[str]) -> dict[str, int]:
        """Return the modules with tests that are near any of the changed files, the nearest first, with distances."""
        keys: dict[str, tuple[int, int]] = {}
        for file in changed:
            distances = _distances(file, {**self._importers, **self._naming(file)})
            alike = {test: _alike(test, file) for test in self.tests}
            for test in self.tests:
                related = alike[test] and alike[test] == max(alike.values())
                if (distance := distances.get(test, 2 if related else None)) is not None:
                    key = (distance - alike[test], distance)
                    keys[test] = min(key, keys.get(test, key))
        order = {test: (*keys[test], self._sizes[test], test) for test in keys}
        for tests in _by_folder(sorted(order, key=order.__getitem__)).values():
            for place, test in enumerate(tests):
                order[test] = (order[test][0] + place // OF_ONE_FOLDER, *order[test][1:])
        return {test: keys[test][1] for test in sorted(order, key=order.__getitem__)}

    @cached_property
    def _sizes(self) -> Mapping[str, int]:
        """The number of modules that each module with tests imports, also through others."""
        return {test: len(_distances(test, self._imports)) for test in self.tests}

    @cached_property
    def _imports(self) -> Mapping[str, Set[str]]:
        fixtures = {path: path.removesuffix("conftest.py") for path in self.texts if path.endswith("/conftest.py")}
        implied = {test: {path for path, folder in fixtures.items() if test.startswith(folder)} for test in self.tests}
        return {path: self.imports.get(path, set()) | implied.get(path, set()) for path in self.texts}

    @cached_property
    def _importers(self) -> Mapping[str, Set[str]]:
        importers: dict[str, set[str]] = {}
        for path, imported in self._imports.items():
            for each in imported:
                importers.setdefault(each, set()).add(path)
        return importers

    def _naming(self, changed: str) -> dict[str, set[str]]:
        """Return the modules that name a file of data: its path, its name or its folders. Each leads to the next."""
        if changed.endswith(".py") and changed.startswith(tuple(f"{package}/" for package in PACKAGES)):
            return {}
        path = PurePosixPath(changed)
        names = [changed, path.name, *(folder.name for folder in path.parents if folder.name not in {"", "tests"})]
        ours = {module: text for module, text in self.texts.items() if module.startswith("tests/")}
        return {
            name: {next_name, *(path for path, text in ours.items() if f'"{name}"' in text or f"/{name}" in text)}
            for name, next_name in zip(names, [*names[1:], ""], strict=True)
        }


def _distances(start: str, edges: Mapping[str, Set[str]]) -> dict[str, int]:
    distances = {start: 0}
    queue = [start]
    for path in queue:
        new = edges.get(path, set()) - distances.keys()
        distances |= dict.fromkeys(new, distances[path] + 1)
        queue += new
    return distances


def _by_folder(paths: Iterable[str]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(path.rpartition("/")[0], []).append(path)
    return found


def _alike(test: str, changed: str) -> int:
    """Return how many folders, and perhaps the name, the paths of a test and of a changed module have in common."""
    own = test.removeprefix("tests/").replace("/test_", "/").split("/")
    others = changed.removeprefix("webhook/").removeprefix("tests/").split("/")
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(own, others, strict=False)))


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607 - found on the PATH
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_files(base: str = "") -> tuple[str, list[str]]:
    """Return the commit with which the checkout is compared, and the files that differ from it.

    Raises:
        LookupError: git does not know the commit, or git is missing.
    """
    parted = (
        [] if base else next(filter(None, (_git("merge-base", each, "HEAD") for each in ("origin/main", "main"))), [])
    )
    commit = base or (parted[0] if parted else "HEAD")
    if not _git("rev-parse", "--verify", f"{commit}^{{commit}}"):
        raise LookupError(f"expected a commit, found {commit}: in a checkout, name one that git log prints")
    found = {*_git("diff", "--name-only", "--no-renames", commit), *_git("ls-files", "--others", "--exclude-standard")}
    return commit[:12], sorted(found)


def read_house() -> House:
    """Read the checkout, with modules that git does not know yet."""
    graph = grimp.build_graph(*PACKAGES, include_external_packages=False, cache_dir=None)
    texts = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in texts}
    imported = {path: graph.find_modules_directly_imported_by(module) for module, path in modules.items()}
    return House({path: {modules[each] for each in found} for path, found in imported.items()}, texts)


def main(arguments: list[str]) -> int:
    """Run the command. Return the exit code of pytest, 0 if there is nothing to run, or 2 for a wrong commit."""
    parser = argparse.ArgumentParser(prog="python -m tests.near", description=__doc__.partition("\n")[0])
    parser.add_argument("--base", default="", help="the commit to compare with")
    parser.add_argument("--all", action="store_true", help="go on when the time is over")
    parser.add_argument("--list", action="store_true", help="print the modules with tests, and run none")
    parser.add_argument("--cluster", action="store_true", help=f"take those in {CONTROL_PLANE} instead of the others")
    parser.add_argument("--seconds", type=float, default=60, help="when these are over, no more tests start")
    parser.add_argument("--processes", default="0", help="in which tests run at a time")
    options, for_pytest = parser.parse_known_args(arguments)
    try:
        commit, changed = changed_files(options.base)
    except LookupError as error:
        print(f"near: {error}", file=sys.stderr)
        return 2
    house = read_house()
    ranked = house.ranked(changed)
    chosen = [path for path in ranked if path.startswith(CONTROL_PLANE) == options.cluster]
    print(f"{len(changed)} files differ from {commit}: {len(ranked)} of {len(house.tests)} modules with tests are near")
    end = time.monotonic() + options.seconds
    code, ran = 0, 0
    while ran < len(chosen) and not code and (options.all or options.list or time.monotonic() < end):
        batch = chosen[ran : ran + AT_A_TIME]
        print(*(f"{ranked[path]:3} imports away: {path}" for path in batch), sep="\n", flush=True)
        ran += len(batch)
        if not options.list:
            marked = ("-m", "cluster and not long") if options.cluster else ()
            command = [sys.executable, "-m", "pytest", "-n", options.processes, *marked, *for_pytest, *batch]
            code = subprocess.run(command, cwd=ROOT, check=False).returncode
            code = 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code
    print(
        f"{ran} modules {'listed' if options.list else 'run'}, {len(chosen) - ran} left out (--all), "
        f"{len(ranked) - len(chosen)} {'need no' if options.cluster else 'need a'} control plane"
    )
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

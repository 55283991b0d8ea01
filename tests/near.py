"""``python -m tests.near``: runs the tests of changed files and of all that imports them, and says why each was chosen.

Changed files are those that differ from the common ancestor with the branch ``main``, uncommitted ones included. A test
is near a changed file if it

- imports the changed module, also through other modules;
- is in the folder of the same name: ``tests/cli`` for ``webhook/cli``, whose program the tests run but do not import;
- is below a ``conftest.py`` that changed or imports the changed module;
- names the changed file, if that is no module, or the deepest of its folders that any test names.

Tests in ``tests/control_plane`` are listed, and run only with ``--cluster``.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import grimp

ROOT = Path(__file__).parents[1]
PACKAGES = ("webhook", "certs", "tests", "bench")
CONTROL_PLANE = "tests/control_plane/"
SHOWN = 8
"""The most lines of each list that are printed."""


@dataclass(frozen=True)
class House:
    """The checkout: its modules and their imports.

    Attributes:
        importers: Returns the modules that import a module, also through others.
        texts: The text of each module, by its path.
    """

    importers: Callable[[str], Iterable[str]]
    texts: Mapping[str, str]

    @property
    def tests(self) -> list[str]:
        """The paths of all modules with tests."""
        return sorted(path for path in self.texts if _is_test(path))

    def near(self, changed: str) -> set[str]:
        """Returns the paths of the modules with tests that are near a changed file."""
        if not changed.endswith(".py") or not changed.startswith(tuple(f"{package}/" for package in PACKAGES)):
            return self._with_importers(self._naming(changed))
        return self._with_importers({changed}) | self._of_same_name(changed)

    def _with_importers(self, paths: Iterable[str]) -> set[str]:
        found = set(paths)
        for path in list(found):
            found |= {self._path(module) for module in self.importers(_module(path))}
        below = tuple(path.removesuffix("conftest.py") for path in found if path.endswith("/conftest.py"))
        return {path for path in self.tests if path in found or path.startswith(below)}

    def _of_same_name(self, changed: str) -> set[str]:
        """Returns the tests in the folder with the name of a module's package, or of the deepest package around it."""
        for folder in PurePosixPath("tests", changed.removeprefix("webhook/")).parents[:-2]:
            if not changed.startswith("tests/") and (found := {path for path in self.tests if _is_in(folder, path)}):
                return found
        return set()

    def _naming(self, changed: str) -> set[str]:
        """Returns the test modules that name a file: its whole path, else its name, else its deepest named folder."""
        path = PurePosixPath(changed)
        names = [changed, path.name, *(folder.name for folder in path.parents if folder.name not in {"", "tests"})]
        ours = {module: text for module, text in self.texts.items() if module.startswith("tests/")}
        for name in names:
            if found := {module for module, text in ours.items() if f'"{name}"' in text or f"/{name}" in text}:
                return found
        return set()

    def _path(self, module: str) -> str:
        path = module.replace(".", "/")
        return f"{path}.py" if f"{path}.py" in self.texts else f"{path}/__init__.py"


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and PurePosixPath(path).name.startswith("test_")


def _is_in(folder: PurePosixPath, path: str) -> bool:
    return PurePosixPath(path).parent == folder


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607 - found on the PATH
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_files(base: str = "") -> tuple[str, list[str]]:
    """Returns the commit with which the checkout is compared, and the files that differ from it.

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
    """Reads the checkout, with modules that git does not know yet."""
    graph = grimp.build_graph(*PACKAGES, include_external_packages=False, cache_dir=".import_linter_cache")
    texts = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }

    def importers(module: str) -> Iterable[str]:
        return graph.find_downstream_modules(module) if module in graph.modules else ()

    return House(importers, texts)


def shortened(lines: Sequence[str]) -> list[str]:
    """Returns the first lines, and the number of the others."""
    rest = len(lines) - SHOWN
    return list(lines) if rest <= 1 else [*lines[:SHOWN], f"and {rest} more"]


def main(arguments: list[str]) -> int:
    """Runs the command. Returns the exit code of pytest, 0 if there is nothing to run, or 2 for a wrong commit."""
    parser = argparse.ArgumentParser(prog="python -m tests.near", description=__doc__.partition("\n")[0])
    parser.add_argument("--base", default="", help="the commit to compare with")
    parser.add_argument("--list", action="store_true", help="print the modules with tests, and run none")
    parser.add_argument("--cluster", action="store_true", help=f"run those in {CONTROL_PLANE} too")
    parser.add_argument("--processes", default="0", help="in which tests run at a time")
    options, for_pytest = parser.parse_known_args(arguments)
    try:
        commit, changed = changed_files(options.base)
    except LookupError as error:
        print(f"near: {error}", file=sys.stderr)
        return 2
    house = read_house()
    reasons = {path: house.near(path) for path in changed}
    chosen = sorted(set().union(*reasons.values()))
    here = [path for path in chosen if options.cluster or not path.startswith(CONTROL_PLANE)]
    print(f"{len(changed)} files differ from {commit}: {len(chosen)} of {len(house.tests)} modules with tests are near")
    for line in shortened([f"{path}: {told(near)}" for path, near in reasons.items()]):
        print(f"  {line}")
    if left := [path for path in chosen if path not in here]:
        print(f"not run, they need a control plane (--cluster): {len(left)}")
        for line in shortened(left):
            print(f"  {line}")
    if options.list:
        print(*here, sep="\n")
    if options.list or not here:
        return 0
    marked = ("-m", "not gpu and not image") if options.cluster else ()
    command = [sys.executable, "-m", "pytest", "-n", options.processes, *marked, *for_pytest, *here]
    sys.stdout.flush()
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def told(near: set[str]) -> str:
    """Returns the names of the tests that are near a file, or their number if there are more than three."""
    names = sorted(near)
    return ", ".join(names) if 0 < len(names) <= 3 else f"{len(names) or 'no'} modules with tests"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

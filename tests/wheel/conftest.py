"""The wheel, built from this checkout without the network, and a fresh environment that has it installed."""

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chart.generated import ROOT


@dataclass(frozen=True)
class Environment:
    """An environment of its own, far from the checkout."""

    directory: Path

    def run(self, *arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """``gpu-topology`` with these arguments, in an empty directory and without a variable of ours."""
        empty = self.directory / "empty"
        empty.mkdir(exist_ok=True)
        program = self.directory / "bin" / "gpu-topology"
        environment = {"COLUMNS": "200", "PATH": os.defpath}
        return subprocess.run(
            [program, *arguments], input=stdin, env=environment, cwd=empty, capture_output=True, text=True, check=False
        )

    def python(self, program: str) -> str:
        """What its Python prints when it runs this program."""
        command = [str(self.directory / "bin" / "python"), "-c", program]
        done = subprocess.run(command, env={}, cwd=self.directory, capture_output=True, text=True, check=True)
        return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a release builds it: hatchling is in requirements.lock, so nothing is downloaded."""
    target = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(target)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel in a fresh environment. Only its dependencies are those of the environment that runs the tests."""
    directory = tmp_path_factory.mktemp("environment")
    venv.create(directory, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(directory / "bin" / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], capture_output=True, check=True)
    (packages,) = directory.glob("lib/python3*/site-packages")
    # A path in a .pth file is searched, but the .pth files there are not read: the checkout stays out of sight.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return Environment(directory)

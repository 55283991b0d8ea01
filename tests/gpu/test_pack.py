"""The kit: a checkout with it runs on a machine without a network and without our packages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.outcome import ROOT
from tests.gpu.pack import KIT, PACKAGES, pinned

APART = ("unshare", "--net", "--map-root-user", "--user")


def test_the_packages_of_the_kit_are_those_of_the_lock() -> None:
    pins = pinned((ROOT / "requirements.lock").read_text())
    assert [name for name in PACKAGES if name not in pins] == []
    assert pins["nvidia-ml-py"].startswith("nvidia-ml-py==13.")


@pytest.mark.long
def test_a_checkout_with_a_kit_runs_without_routes_and_packages(tmp_path: Path) -> None:
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets no process have namespaces of its own")
    checkout = tmp_path / "checkout"
    for name in ("certs", "webhook", "tests/gpu"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tests/__init__.py", "Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copyfile(ROOT / name, checkout / name)
    packed = subprocess.run(
        [sys.executable, "-m", "tests.gpu.pack"], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert packed.returncode == 0, packed.stderr
    assert "It lacks: CUDA, NCCL and Python; HAMi-core" in packed.stdout
    assert (checkout / KIT.name / "packages" / "pynvml.py").is_file()
    bare = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    options = f"--output {tmp_path}/gpu.tar.gz --agent-seconds 1 --idle-seconds 0"
    done = subprocess.run(
        [*APART, "make", "gpu", f"PYTHON={bare}", f"GPU={options}"],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named" not in done.stdout + done.stderr
    assert "not tried discovery" in done.stdout, done.stdout + done.stderr
    assert "Error 2" in done.stderr
    assert not (checkout / ".venv").exists()

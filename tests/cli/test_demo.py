"""The demo is the first thing that a newcomer runs."""

import subprocess
import sys
from pathlib import Path

from tests.cli.command import gpu_topology

ROOT = Path(__file__).parents[2]


def test_the_demo_sends_every_example_through_a_webhook_and_agrees_with_inject() -> None:
    command = [sys.executable, "-m", "webhook", "demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for path in (ROOT / "examples" / "workloads").glob("*.yaml"):
        assert path.stem in done.stdout
    assert "+ env CUDA_DISABLE_CONTROL=true" in done.stdout
    assert "refuse  Pod prefill-without-permission" in done.stdout
    assert "20 pods of 16 workloads went through the webhook over TLS." in done.stdout
    assert "gives the same patch, byte for byte, for 20 of them" in done.stdout


def test_without_examples_the_demo_says_where_to_find_them(tmp_path: Path) -> None:
    done = gpu_topology("demo", "--examples", str(tmp_path))
    assert done.code == 1
    assert done.err == (
        f"gpu-topology: {tmp_path}: expected workloads/*.yaml. Run this in a checkout, or name one with --examples\n"
    )

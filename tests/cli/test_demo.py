"""The demo is the first thing that a newcomer runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import ROOT, gpu_topology


@pytest.mark.long
def test_the_demo_sends_every_example_through_a_webhook_and_starts_pods_on_a_simulated_driver(tmp_path: Path) -> None:
    driver = tmp_path / "driver"
    subprocess.run([sys.executable, "-m", "tests.nvml", "h20", driver], cwd=ROOT, check=True, timeout=300)
    done = gpu_topology("demo", "--driver", driver)
    assert (done.code, done.err) == (0, "")
    assert "a stand-in for the driver, in the place of libnvidia-ml.so.1" in done.out
    for path in (ROOT / "examples" / "workloads").glob("*.yaml"):
        assert path.stem in done.out
    prefill, decode = (done.out.index(f"\npod {name}\n") for name in ("pd-prefill-0", "pd-decode-0"))
    assert "container prefill starts with CUDA_VISIBLE_DEVICES=0,1 " in done.out[prefill:decode]
    assert "container decode starts with CUDA_VISIBLE_DEVICES=2,3 " in done.out[decode:]
    assert (
        "remap: exit code 12\n"
        "          CUDA_VISIBLE_DEVICES of container prefill is 0,1: "
        "1 is GPU1 GPU-4695a002-ab2d-092d-6db9-44e9ae3cb5a6, "
        "but HAMi allocated GPU4 GPU-f055d080-1808-96f1-1c87-70fad19d9040\n"
    ) in done.out


def test_without_a_driver_the_demo_says_so_is_short_and_ends_with_its_totals() -> None:
    done = gpu_topology("demo")
    assert (done.code, done.err) == (0, "")
    assert "There is no stand-in for the driver" in done.out
    lines = done.out.splitlines()
    assert len(lines) < 50
    assert "  refuse  11-refused  " in done.out
    assert "\n    skip  02-fsdp-video-rayjob  No container asks for a GPU.\n" in done.out
    assert lines[-4:-1] == [
        "20 pods of 16 workloads went through the webhook over TLS.",
        "'gpu-topology inject' gives the same patch, byte for byte, for 20 of them.",
        "3 pods started with their own cards; with one card swapped, pd-prefill-0 does not.",
    ]


def test_a_driver_that_is_not_there_is_an_error() -> None:
    done = gpu_topology("demo", "--driver", "nowhere")
    assert (done.code, done.err) == (
        1,
        "gpu-topology: --driver nowhere: expected a stand-in for a driver, as 'make demo' makes, found none\n",
    )

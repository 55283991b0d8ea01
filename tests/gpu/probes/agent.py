"""Whether the agent would call this node degraded."""

import subprocess
import sys

from tests.gpu.probes.ending import ended, not_tried

_COMMAND = ("agent", "--once", "--dry-run", "--node", "this-node", "--namespace", "gpu-topology-nodes")


def main() -> None:
    """Ask the agent what it would publish."""
    done = subprocess.run(
        [sys.executable, "-m", "webhook", *_COMMAND], capture_output=True, text=True, check=False, timeout=50
    )
    said = done.stdout + done.stderr
    if done.returncode:
        not_tried(f"the agent ends with {done.returncode}: {said.strip().splitlines()[-1:]}")
    is_degraded = "degraded" in said
    ended(said.splitlines(), "the agent says degraded: see what nvidia-smi says of the links" if is_degraded else "")


if __name__ == "__main__":
    main()

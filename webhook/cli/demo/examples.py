"""The place of the examples: in the package if it was installed from a wheel, else in the checkout."""

from pathlib import Path

PACKAGED = Path(__file__).with_name("packaged_examples")
"""The folder that the build of the wheel fills: ``tool.hatch.build.targets.wheel.sources`` in pyproject.toml."""
CHECKOUT = Path(__file__).parents[3] / "examples"


def find_examples() -> Path:
    """Return the directory with ``workloads/`` and ``state/``, which may be missing."""
    return PACKAGED if PACKAGED.is_dir() else CHECKOUT

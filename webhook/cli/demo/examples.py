"""Where the examples are: in the package if it was installed from a wheel, else in the checkout."""

from pathlib import Path

PACKAGED = Path(__file__).with_name("packaged_examples")
"""The build of the wheel puts them there: ``tool.hatch.build.targets.wheel.sources`` in pyproject.toml."""
CHECKOUT = Path(__file__).parents[3] / "examples"


def find_examples() -> Path:
    """A directory with ``workloads/`` and ``state/``; it need not exist."""
    return PACKAGED if PACKAGED.is_dir() else CHECKOUT

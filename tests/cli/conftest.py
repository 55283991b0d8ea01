"""A cluster for the commands that ask one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.stand_in_cluster import Cluster, serving


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """An API server without pods."""
    with serving(tmp_path) as found:
        yield found


@pytest.fixture
def claims_enabled(tmp_path: Path) -> tuple[str, str]:
    """The options for a configuration that has claims looked at."""
    path = tmp_path / "config.yaml"
    path.write_text("claims: {enabled: true}\n")
    return "--config", str(path)

"""The manifest by which krew finds the archives: krew.sigs.k8s.io, "Developing Kubectl Plugins"."""

import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.krew.archive import PLUGIN, ROOT
from tests.krew.platforms import Platform
from webhook import __version__

NAME = "gpu-topology"


def archive_name(platform: Platform) -> str:
    """Of the file."""
    return f"{PLUGIN}-{platform.name}.tar.gz"


def manifest(archives: Mapping[Platform, Path]) -> dict[str, Any]:
    """The Plugin of krew.

    Args:
        archives: As they were built; their checksums are in it.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    home = project["urls"]["Homepage"]
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": NAME},
        "spec": {
            "version": f"v{__version__}",
            "homepage": home,
            "shortDescription": "Tells why a GPU pod has NVLink, or has not",
            "description": (
                "Goes through the conditions for NVLink between the GPUs of a pod on a cluster with HAMi, and says "
                "what to do about those that fail. Shows the topology of nodes, and plans jobs with it.\n"
            ),
            "caveats": "Needs Python 3.11, 3.12 or 3.13 as python3 in PATH.\n",
            "platforms": [_platform(platform, path, home) for platform, path in archives.items()],
        },
    }


def _platform(platform: Platform, archive: Path, home: str) -> dict[str, Any]:
    return {
        "selector": {"matchLabels": {"os": platform.os, "arch": platform.arch}},
        "uri": f"{home}/releases/download/v{__version__}/{archive.name}",
        "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "bin": PLUGIN,
    }

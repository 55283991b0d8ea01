"""Runs the plugin from the archive of krew: ``main.py`` in it.

The libraries are named to this program alone. PYTHONPATH would name them to credential plugins of kubectl too.
"""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE / "lib"), str(_HERE / f"cp{sys.version_info[0]}{sys.version_info[1]}")]

from webhook.entry import plugin  # noqa: E402 - the path has to be there first

plugin()

"""``make gpu`` tries on a machine with GPUs what this project claims, and packs what was seen."""

import sys

# An older one does not get as far as a message of ours: it lacks what the modules import.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(f"make gpu: expected Python 3.11 or later, found {sys.version.split()[0]}. Set PYTHON=... to a later one")

"""Whether the tests under load, the attacks and the longest pods run in their long form: ``make nightly``.

Each rule is tried in the short form too, which ``make test`` runs: with fewer pods and nodes, and each attack once.
"""

import os

NIGHTLY = os.environ.get("NIGHTLY") == "1"

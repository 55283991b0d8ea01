"""``python -m tests.compatibility [FILE]``: renews the matrix, with what a run has written to the file."""

import sys
from pathlib import Path

import msgspec

from tests.compatibility.cells import Run
from tests.compatibility.page import after, read_known, write

known = read_known()
for name in sys.argv[1:]:
    known = after(known, msgspec.json.decode(Path(name).read_bytes(), type=Run))
write(known)

"""How a probe ends."""

import json
import sys
from typing import Any, NoReturn

from tests.gpu.model import NOT_TRIED_CODE


def ended(seen: Any, problem: str = "", said: str = "") -> NoReturn:
    """Print what was seen, and end with 0, or with 1 for a problem.

    Args:
        seen: Whatever was seen, for JSON.
        problem: Why it does not hold; empty if it does.
        said: What was seen, in a line.
    """
    print(json.dumps(seen, indent=2, default=str), flush=True)
    told = "; ".join(filter(None, (problem, said)))
    if told:
        print(told, file=sys.stderr)
    sys.exit(1 if problem else 0)


def not_tried(why: str) -> NoReturn:
    """End because it could not be tried."""
    print(why, file=sys.stderr)
    sys.exit(NOT_TRIED_CODE)

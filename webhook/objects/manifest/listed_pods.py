"""The number of pods in a long List, counted in its text: ruamel takes ten seconds for what kubectl prints of 3,000."""

import re

_LIST = re.compile(r"^kind: (?:Pod)?List$", re.MULTILINE)
_FIRST_ITEM = re.compile(r"^items:\n(?P<indent> *)- ", re.MULTILINE)


def count_listed_pods(text: str) -> int:
    """Returns how many items of a YAML List are Pods; 0 for any other text, and where that is not seen.

    An item begins in the column of the first one, because whatever is in an item is further to the right.
    """
    first = _FIRST_ITEM.search(text)
    if first is None or not _LIST.search(text):
        return 0
    return len(re.findall(rf"^{first['indent']}(?:- |  )kind: Pod$", text, re.MULTILINE))

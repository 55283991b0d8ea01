"""The legend of the characters in cells, as far as they are used."""

from collections.abc import Iterable

from webhook.cli.status.marks import FREE, MIG, MORE, UNKNOWN
from webhook.insight.overview.groups import Joined

BRACKETS = {Joined.ALL: ("[", "]"), Joined.PARTLY: ("{", "}"), Joined.NOT: ("(", ")"), Joined.UNKNOWN: ("<", ">")}
_JOINED = (
    (Joined.ALL, "[ ] every pair has NVLink"),
    (Joined.PARTLY, "{ } some pairs have NVLink"),
    (Joined.NOT, "( ) no NVLink"),
    (Joined.UNKNOWN, "< > NVLink not known"),
)
_WHO = (
    (str.islower, "a, b, ... the pod with that letter has the card"),
    (str.isupper, "A, B, ... the planner chose the card for that pod"),
    (str.isdigit, "1, 2, ... so many pods share it"),
    (MORE.__eq__, f"{MORE} more pods than there are letters or digits"),
    (FREE.__eq__, f"{FREE} free"),
    (UNKNOWN.__eq__, f"{UNKNOWN} not known whether it is free"),
)
_HOW = {
    "!": "a! NVLinks down",
    "x": "ax cannot be used",
    "-": "a- HAMi was told to leave it alone",
    "?": "a? links not known",
    MIG: f"1{MIG} in MIG mode",
}


def legend(used: Iterable[str], joined: Iterable[Joined]) -> list[str]:
    """Return the clauses of the legend, in a fixed order.

    Args:
        used: The characters as :func:`webhook.cli.status.marks.used` gives them.
        joined: The kinds of groups that were drawn.
    """
    used, joined = set(used), set(joined)
    who = {each[1] for each in used if each[0] == "1"}
    how = {each[1] for each in used if each[0] == "2"}
    return [
        *(said for kind, said in _JOINED if kind in joined),
        *(said for is_it, said in _WHO if any(is_it(mark) for mark in who)),
        *(said for sign, said in _HOW.items() if sign in how),
    ]

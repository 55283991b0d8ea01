"""GT664 to GT674: why ``gpu-topology defrag`` does not move a pod, in a clause about it."""

from webhook.words.catalogue.entry import Entry

_PAGE = "defrag.md#what-is-moved"

STAYS_NOT_RUNNING = Entry("GT664", "does not run, or is being deleted", "", _PAGE)
STAYS_NOT_PLACED = Entry(
    "GT665",
    "has cards that the planner did not choose, so it may not choose the next ones",
    "Delete the pod if its controller creates it anew: the planner chooses the cards of pods that it holds behind its "
    "gate",
    _PAGE,
)
STAYS_NO_CONTROLLER = Entry("GT666", "has no controller that creates it anew", "", _PAGE)
STAYS_LOSES_WORK = Entry(
    "GT667",
    "belongs to a Job or another controller for which an eviction is a failure",
    'Set gpu.topology/move: "true" on the pod if its controller loses nothing by an eviction',
    _PAGE,
)
STAYS_SWITCHED_OFF = Entry(
    "GT668",
    'has gpu.topology/move: "false"',
    "Remove the annotation from the pod or its namespace if the pod may be moved",
    _PAGE,
)
STAYS_GROUP = Entry("GT669", "works together with the other pods of its group", "", _PAGE)
STAYS_DENIES = Entry("GT670", "denies other cards, and has what it requires", "", _PAGE)
STAYS_PRIORITY = Entry(
    "GT671", "has a higher priority than --max-priority", "Give a greater --max-priority if it may be moved", _PAGE
)
STAYS_YOUNG = Entry("GT672", "is younger than --min-age", "Wait, or give a smaller --min-age", _PAGE)
STAYS_BUDGET = Entry(
    "GT673",
    "is kept by a PodDisruptionBudget",
    "Wait until its budget allows an eviction, see that only one budget selects the pod, and that its namespace has no "
    "more than 100 budgets",
    _PAGE,
)
STAYS_NOT_CHOSEN = Entry("GT674", "asks for no cards that the planner would choose", "", _PAGE)

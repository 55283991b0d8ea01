"""GT68: messages about pods whose scheduling gate no planner opens."""

from webhook.words.catalogue.entry import Entry

RELEASED_BY_HAND = Entry(
    "GT685",
    "all pods that waited for their cards were released: the scheduler chooses without the planner",
    "",
    "command-line.md#place",
)

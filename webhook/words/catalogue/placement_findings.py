"""GT64: findings of ``gpu-topology explain`` about pods that the planner places, beside the planner's own messages."""

from webhook.words.catalogue.entry import Entry

_PAGE = "placement.md#nothing-waits-for-ever"
_PINS = "placement.md#what-a-pin-cannot-do"
_RELEASE = "gpu-topology place release --all"

PLANNER_GONE = Entry(
    "GT640",
    "the pod waits behind the scheduling gate gpu.topology/place{since}, and no planner is alive: {why}; {then}",
    f"An administrator looks after the Deployment of the planner, or opens the gates: {_RELEASE}",
    _PAGE,
)
NO_REASON_YET = Entry(
    "GT641",
    "the pod waits behind the scheduling gate gpu.topology/place{since}, and the planner has not said why yet{lease}",
    "Ask again in a minute. If the Lease is not renewed, the Deployment gpu-topology-place has no running pod; "
    "otherwise the log of its pod says what keeps it",
    "placement.md#what-a-waiting-pod-says",
)
HOLDS_ITS_CARDS = Entry(
    "GT642",
    "the pod waits behind the scheduling gate gpu.topology/place{since}, and holds its cards: {chosen}",
    "Wait: the gates of a group open when all of its pods have cards, one after the other on a node",
    "placement.md#groups",
)
NOT_TAKEN_YET = Entry(
    "GT643",
    "the planner chose {chosen}, and the scheduler has not looked at the pod since",
    "See whether the scheduler of HAMi runs",
    _PAGE,
)
NOT_TAKEN = Entry(
    "GT644",
    "the planner chose {chosen}, and the scheduler finds no node with them: {said}",
    "Wait: the planner chooses again. If the scheduler names something else than cards, correct that",
    _PINS,
)
PIN_WITHOUT_PLANNER = Entry(
    "GT645",
    "the planner chose {chosen}, the scheduler finds no node with them ({said}), and no planner is alive: {why}",
    f"An administrator looks after the Deployment of the planner, or takes its choices back: {_RELEASE}",
    _PAGE,
)
LIST_CHANGED = Entry(
    "GT646",
    "the planner chose {chosen}, and nvidia.com/use-gpuuuid names other cards now",
    "Leave nvidia.com/use-gpuuuid to the planner, and create the pod again",
    _PINS,
)
CHOICE_UNREADABLE = Entry(
    "GT647",
    "the label gpu.topology/placement says pinned, and gpu.topology/placed cannot be read",
    "Leave gpu.topology/placed to the planner, and create the pod again",
    _PAGE,
)
LET_GO = Entry(
    "GT648",
    "the pod went to the scheduler without a choice of the planner",
    "Read the Events of the pod: they say who opened its scheduling gate",
    _PAGE,
)

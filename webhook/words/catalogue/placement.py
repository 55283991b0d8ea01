"""GT6: the pods that wait until their cards are chosen, and their further way."""

from webhook.words.catalogue.entry import Entry

_WHO = "placement.md#which-pods-wait"
_LEAVE = "Leave the annotation out, and the webhook has the cards chosen"

NOTHING_ASKED = Entry(
    "GT600",
    "the pod asks for nothing of its cards, and placement.mode is on-request in this cluster",
    "Set gpu.topology/require-nvlink, min-bandwidth, policy, place-wait or group if their links matter",
    _WHO,
)
PLACE_OFF = Entry("GT601", "gpu.topology/place is off", "Set gpu.topology/place: auto", _WHO)
MODE_OFF = Entry("GT602", "placement is off in this cluster", "An administrator sets placement.mode: on", _WHO)
MODE_OBSERVE = Entry(
    "GT603", "placement only observes in this cluster", "An administrator sets placement.mode: on", _WHO
)
NO_PLANNER = Entry(
    "GT604",
    "no planner is alive",
    "An administrator looks after the Deployment of the planner; the pod goes on without it",
    _WHO,
)
ONLY_OBSERVED = Entry("GT605", "the pod is only observed", "Choose another gpu.topology/profile", _WHO)
STATIC_POD = Entry("GT606", "a static pod has its node", page=_WHO)
OF_A_DAEMON_SET = Entry("GT607", "a pod of a DaemonSet has its node", page=_WHO)
NO_CARDS_OF_HAMI = Entry("GT608", "the pod asks for no GPU that HAMi schedules", page=_WHO)
BY_CLAIMS = Entry("GT609", "the pod gets devices by resource claims", page=_WHO)
ALLOCATED = Entry("GT610", "the pod has its GPUs already", page=_WHO)
OWN_LIST = Entry("GT611", "the pod names its cards itself, in {key}", _LEAVE, _WHO)
PARTS_OF_CARDS = Entry("GT612", "container {container} asks for parts of cards", page=_WHO)
GPUS_OF_INIT_CONTAINER = Entry(
    "GT613",
    "init container {container} asks for GPUs, which HAMi may count beside those of the others",
    "Let a container of the pod do that work",
    _WHO,
)
EMPTY_TERM = Entry(
    "GT614", "an empty term of its required node affinity can never be narrowed", "Remove the term", _WHO
)
SLICES_OFF = Entry(
    "GT618", "placement.slices of the configuration leaves pods that are not injected to HAMi", page=_WHO
)
PARTS_FOR_SEVERAL = Entry(
    "GT619", "several containers ask for GPUs, and HAMi may give them parts of one card", page=_WHO
)
IDLE_CARDS_ONLY = Entry("GT649", "HAMi's policy mutex gives the pod idle cards only", page=_WHO)
LEFT_ALONE = Entry("GT615", "the webhook leaves the pod as it is", "Remove the gate", _WHO)
GATE_OF_ITS_OWN = Entry(
    "GT616",
    "the pod brings the gate gpu.topology/place, but {why}",
    "Remove the gate: the webhook adds it to pods that have to wait",
    _WHO,
)
NO_EFFECT = Entry("GT617", "{key} has no effect: {why}", "Leave the annotation out", _WHO)
OPENED_WITHOUT_PLANNER = Entry(
    "GT680",
    "no planner has shown a sign of life{since}, so the pod goes to the scheduler without a choice of its cards",
    "An administrator looks after the Deployment of the planner",
    _WHO,
)
OPENED_WITHOUT_PLACEMENT = Entry(
    "GT681",
    "placement was switched off while the pod waited, so it goes to the scheduler without a choice of its cards",
    page=_WHO,
)
DENIES_WITHOUT_PLANNER = Entry(
    "GT656",
    "with on-violation deny HAMi keeps the cards of a refused pod; {why}",
    "Have an administrator set placement.mode: on, so that the cards are chosen before, or set "
    "gpu.topology/on-violation: warn",
    "annotations.md#requirements",
)
BANDWIDTH_OUT_OF_REACH = Entry(
    "GT657",
    "min-bandwidth {least} is met by no known node: the fastest pair has {best} GB/s{sheet}",
    "Require less: min-bandwidth counts one direction between two cards, a datasheet both directions of all NVLinks",
    "annotations.md#requirements",
)

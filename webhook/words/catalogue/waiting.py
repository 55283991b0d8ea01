"""GT62 to GT65, and GT67: the planner's messages about pods whose cards it chooses."""

from webhook.words.catalogue.entry import Entry

_PAGE = "placement.md#what-a-waiting-pod-says"
_FREE = (
    "Wait until cards are given back, ask for fewer, or have a node uncordoned that the message names; no pod is "
    "evicted for its cards, whatever the priority"
)
_UNMET = "Wait until cards are given back, ask for less, set gpu.topology/on-violation: warn, or have a node uncordoned"

CARDS_CHOSEN = Entry("GT620", "node {node}: {cards} ({link})", "", _PAGE)
CARDS_CHOSEN_AND_NONE_HELD = Entry(
    "GT635",
    "node {node}: {cards} ({link}); pods of the group that are not there yet: {pods}; no cards are held for them",
    "",
    "placement.md#pods-that-come-later",
)
CARDS_CHOSEN_WITHOUT_ROOM = Entry(
    "GT652",
    "node {node}: {cards} ({link}); it has no room for the pod until kube-scheduler evicts pods of lower priority",
    "",
    "placement.md#preemption",
)
NO_FREE_CARDS = Entry("GT621", "no node has {count} free cards for the pod: {evidence}", _FREE, _PAGE)
NO_ROOM_FOR_PARTS = Entry(
    "GT658",
    "no node has room for the pod on {count} cards: {evidence}",
    "Wait until other pods give memory, cores or cards back, or ask for less",
    _PAGE,
)
RELEASED_WITHOUT_ROOM = Entry(
    "GT659",
    "no node had room for the pod on {count} cards for {seconds} s, so the scheduler chooses for itself: {evidence}",
    "Add nodes, or wait: the planner still chooses cards that have room while the pod has no node",
    _PAGE,
)
NO_SUCH_SET = Entry("GT622", "no {count} free cards {wanted}: {evidence}", _UNMET, _PAGE)
NEVER_FITS = Entry(
    "GT623",
    "the pod asks for {count} cards, no node has more than {most}",
    "Ask for fewer cards, or split the job over several pods",
    _PAGE,
)
NO_NODE = Entry(
    "GT624",
    "the pod can run on no node with cards: {evidence}",
    "Change its nodeSelector, affinity, tolerations or requests, or wait for room",
    _PAGE,
)
BETTER_LATER = Entry(
    "GT625",
    "the best free cards have {found}, the nodes have cards with {best}; the pod waits {seconds} s at most",
    "Remove gpu.topology/place-wait for the cards that are free",
    _PAGE,
)
OTHER_GATES = Entry(
    "GT626",
    "other scheduling gates hold the pod back: {gates}",
    "The programs that set them open them",
    _PAGE,
)
NOT_PLACEABLE = Entry("GT627", "the planner does not choose cards for the pod: {why}", "", _PAGE)
RELEASED_WITHOUT_CARDS = Entry(
    "GT628",
    "no node had {count} free cards for {seconds} s, so the pod goes to the scheduler without a choice: {evidence}",
    "Add nodes, or wait: the planner still chooses cards that become free while the pod has no node",
    _PAGE,
)
SCHEDULER_REFUSED = Entry(
    "GT629",
    "the scheduler did not take node {node}: {said}",
    "The planner chooses again",
    _PAGE,
)
TRIED_OFTEN = Entry(
    "GT630",
    "the scheduler took none of the cards that were chosen ({attempts} in turn), so it chooses for itself",
    "The message of the condition PodScheduled says what the scheduler misses",
    _PAGE,
)
PIN_WITHOUT_CARDS = Entry(
    "GT631",
    "the cards that were chosen are no longer free, and no others meet what the pod requires: {evidence}",
    _UNMET,
    _PAGE,
)
NODE_LOST = Entry(
    "GT653",
    "node {node} is no longer for the pod: it {why}",
    "The planner chooses again",
    "placement.md#nodes-and-cards-that-come-and-go",
)
LAST_NODE_LOST = Entry(
    "GT654",
    "node {node} is no longer for the pod: it {why}; no other node has cards, so the scheduler chooses for itself",
    "Wait, or uncordon the node: the planner still chooses cards that become free while the pod has no node",
    "placement.md#nodes-and-cards-that-come-and-go",
)
ROOM_MADE_ELSEWHERE = Entry(
    "GT655",
    "kube-scheduler makes room for the pod on node {node}",
    "The planner chooses cards of that node",
    "placement.md#preemption",
)
OTHER_CARDS = Entry(
    "GT632",
    "the planner chose {chosen}, HAMi gave {given}",
    "See docs/placement.md: a user's own list, or a device plugin that prefers cards of its own, causes this",
    _PAGE,
)
GROUP_INCOMPLETE = Entry(
    "GT633",
    "{present} of {size} pods of group {group} are there",
    "Create the others, or correct gpu.topology/group-size, or the PodGroup",
    _PAGE,
)
GROUP_WITHOUT_CARDS = Entry(
    "GT634",
    "the {size} pods of group {group} need {count} free cards {wanted}: {evidence}",
    _FREE,
    _PAGE,
)
WITHOUT_POD_GROUP = Entry(
    "GT677",
    "PodGroup {group} is not there, so it is not known how many pods belong to the group",
    "Create it, or set gpu.topology/group-size",
    "placement.md#groups",
)
WAITS_FOR_ITS_TURN = Entry(
    "GT636",
    "there are cards for the pod; pods that the scheduler has to bind before it: {count}",
    "Wait. If HAMi's scheduler is down or slow, see its log; placement.inFlight says how many it may have at a time",
    _PAGE,
)
CHANGE_REFUSED = Entry(
    "GT678",
    "the API server refuses the change that gives the pod its cards: {problem}",
    "If the annotations of the pod fill the 256 KiB that are allowed, shorten them. If the message names a policy, let "
    "it allow the planner's change. The planner tries again after a minute at most",
    _PAGE,
)
BETTER_CARDS_WERE_FREE = Entry(
    "GT637",
    "HAMi gave {given} of node {given_node} ({given_link}); {cards} of node {node} ({link}) were free",
    "Set placement.mode: on, and the planner chooses",
    _PAGE,
)
BETTER_PARTS_HAD_ROOM = Entry(
    "GT660",
    "HAMi gave {given} of node {node} ({given_link}), which takes {harm:g} GB/s from other pods; {cards} ({link}) had "
    "room, and would take {least:g} GB/s",
    "Set placement.slices: on, and the planner chooses",
    _PAGE,
)
TAKEN_BACK = Entry(
    "GT650",
    "the cards that were chosen for group {group} are given back: {why}",
    "Wait: the planner chooses again for all pods of the group",
    "placement.md#groups",
)
GROUP_HELD_BACK = Entry(
    "GT651",
    "other scheduling gates hold pods of group {group} back: {gates} ({held} of them)",
    "The programs that set them open them",
    "placement.md#groups",
)

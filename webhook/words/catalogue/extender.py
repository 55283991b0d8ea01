"""GT69: reasons of the scheduler extender why a pod does not get a node. kube-scheduler counts equal texts."""

from webhook.words.catalogue.entry import Entry

_PAGE = "placement.md#what-the-extender-says"

NODE_TOO_FEW_FREE = Entry(
    "GT690",
    "{free} of the {count} cards that the pod asks for are free",
    "Wait until cards are given back, or ask for fewer",
    _PAGE,
)
NODE_TOO_FEW_CARDS = Entry(
    "GT691",
    "the node has {most} cards that the pod may use, the pod asks for {count}",
    "Ask for fewer cards, or split the job over several pods",
    _PAGE,
)
NODE_NO_SET_FREE = Entry(
    "GT692",
    "no {count} free cards {wanted}",
    "Wait until cards are given back, ask for fewer, or set gpu.topology/on-violation: warn",
    _PAGE,
)
NODE_NO_SUCH_SET = Entry(
    "GT693",
    "the node has no {count} cards {wanted}",
    "Ask for fewer cards or for less of their links, or set gpu.topology/on-violation: warn",
    _PAGE,
)

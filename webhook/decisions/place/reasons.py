"""The closed vocabulary of the condition ``gpu.topology/Placed``, and of the planner's log and metrics."""

from enum import StrEnum

from webhook.decisions.place.pod import UnboundPod


class PlaceReason(StrEnum):
    """The reason why a pod waits, or the way in which it went on."""

    PINNED = "Pinned"
    LET_GO = "LetGo"
    """The gate of the pod is opened: the pod was pinned before, with its group."""
    ADOPTED = "Adopted"
    """A webhook replica opened the gate of a pod with cards while no planner was alive; its cards are held again."""
    TAKEN = "Taken"
    SOON = "Soon"
    """The cards of the pod are chosen; another pod of the node, or too many other pods, are on their way."""
    OTHER_GATES = "OtherGates"
    NO_FREE_CARDS = "NoFreeCards"
    NO_NODE = "NoNode"
    NEVER_FITS = "NeverFits"
    REQUIREMENT_NOT_MET = "RequirementNotMet"
    BETTER_LATER = "BetterLater"
    GROUP_INCOMPLETE = "GroupIncomplete"
    TAKEN_BACK = "TakenBack"
    """The pod held cards behind the gate, and another pod of its group had none or lost its own."""
    CHANGE_REFUSED = "ChangeRefused"
    """The API server refuses the change that gives the pod its cards."""
    RELEASED = "Released"
    REFUSED = "Refused"
    """The scheduler did not take the node; the planner chose again."""
    GIVEN_UP = "GivenUp"
    CARDS_LOST = "CardsLost"
    OTHER_CARDS = "OtherCards"
    BEST_CARDS_GIVEN = "BestCardsGiven"
    BETTER_CARDS_WERE_FREE = "BetterCardsWereFree"
    NOT_PLACEABLE = "NotPlaceable"
    SWITCHED_OFF = "SwitchedOff"


def told(unbound: UnboundPod | None) -> PlaceReason:
    """Returns the reason why a pod waits, as the planner has written it to the pod; ``Soon`` if there is none."""
    try:
        return PlaceReason(unbound.placed.reason if unbound else "")
    except ValueError:
        return PlaceReason.SOON

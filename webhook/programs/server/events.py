"""Events about pods: who writes them stands behind this interface."""

from typing import Protocol

from webhook.objects.binding import PodEvent


class Events(Protocol):
    """Takes Events and writes them later."""

    @property
    def lost(self) -> int:
        """How many could not be written so far."""

    def tell(self, namespace: str, name: str, uid: str, event: PodEvent) -> None:
        """Have an Event written about the pod of that namespace, name and uid. Does not wait, and never fails."""


class NoEvents:
    """For a state without an API server: the log says the same."""

    lost = 0

    def tell(self, namespace: str, name: str, uid: str, event: PodEvent) -> None:
        """Nothing."""

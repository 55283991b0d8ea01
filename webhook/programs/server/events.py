"""The interface to the writer of Events about pods."""

from typing import Protocol

from webhook.objects.binding import PodEvent


class Events(Protocol):
    """A writer that takes Events and writes them later."""

    @property
    def lost(self) -> int:
        """The number of Events that could not be written so far."""

    def tell(self, namespace: str, name: str, uid: str, event: PodEvent) -> None:
        """Have an Event written about the pod of that namespace, name and uid. Does not wait, and never fails."""


class NoEvents:
    """The writer for a state without an API server. It writes nothing, because the log has the same facts."""

    lost = 0

    def tell(self, namespace: str, name: str, uid: str, event: PodEvent) -> None:
        """Do nothing."""

"""The requests of the care of certificates to the API server: :class:`certs.rounds.Cluster`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic

from certs import ApiFailure
from certs import Conflict as WrittenMeanwhile
from certs.objects import CertificateSpec
from webhook.cluster.api.errors import ApiError, Conflict, NotFound
from webhook.cluster.api.leader_lease import LeaderLease
from webhook.cluster.api.session import Session
from webhook.cluster.api.verbs import Api, Object, PatchForm
from webhook.cluster.kinds import MUTATING_WEBHOOKS, SECRET
from webhook.words import names

SECONDS = 10.0
"""The time limit of one request."""


class CertificateRequests:
    """The requests of one process. Each may raise :class:`certs.ApiFailure`; the next round tries again.

    Args:
        session: The connection to the API server, which this closes.
        spec: The names of the objects. The Lease has the name of the Secret.
        identity: The name of this replica, which no other has; empty for a program that takes no part in the election.
        lease_seconds: The time for which a leader may be silent before another one takes over.
        clock: A clock in seconds that never goes back.
    """

    def __init__(
        self,
        session: Session,
        spec: CertificateSpec,
        *,
        identity: str = "",
        lease_seconds: float = 0.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._api = api = Api(session, field_manager=names.CERTIFICATES_FIELD_MANAGER)
        self._spec = spec
        self._lease = LeaderLease(api, spec.namespace, spec.secret, identity, seconds=lease_seconds, clock=clock)

    async def configuration(self) -> Object | None:
        """Get the MutatingWebhookConfiguration; None if there is none."""
        with _told():
            found = await self._api.find(MUTATING_WEBHOOKS, self._spec.configuration)
            return found.object() if found else None

    async def secret(self) -> tuple[Object | None, datetime]:
        """Get the Secret, None if there is none, and the time of the answer by the API server's clock, or else ours."""
        with _told():
            try:
                found = await self._api.get(SECRET, self._spec.secret, self._spec.namespace)
            except NotFound as error:
                return None, error.date or datetime.now(UTC)
            return found.object(), found.date or datetime.now(UTC)

    async def write_secret(self, manifest: Object) -> None:
        """Replace the Secret of the ``resourceVersion`` in ``manifest``; create one if it names none."""
        with _told():
            if "resourceVersion" in manifest["metadata"]:
                await self._api.replace(SECRET, self._spec.secret, self._spec.namespace, manifest)
            else:
                await self._api.create(SECRET, manifest)

    async def ask_for(self, renewal: str) -> None:
        """Ask the leader for a renewal, by the annotation of the Secret."""
        with _told():
            patch = {"metadata": {"annotations": {self._spec.rotate: renewal}}}
            await self._api.patch(SECRET, self._spec.secret, self._spec.namespace, patch, PatchForm.MERGE)

    async def register(self, patch: Object) -> None:
        """Apply a strategic merge patch to the MutatingWebhookConfiguration."""
        with _told():
            await self._api.patch(MUTATING_WEBHOOKS, self._spec.configuration, "", patch, PatchForm.STRATEGIC)

    async def lead(self) -> bool:
        """Take part in the election of a leader, and return whether this replica leads for now."""
        try:
            with _told():
                return await self._lease.take()
        except WrittenMeanwhile:  # another replica was faster
            return False

    async def leave(self) -> None:
        """Let another replica lead, if this one does."""
        with _told():
            await self._lease.give_back()

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()


@contextmanager
def _told() -> Iterator[None]:
    """Raise the errors of ``certs`` in place of ours."""
    try:
        yield
    except Conflict as error:
        raise WrittenMeanwhile(str(error)) from None
    except ApiError as error:
        raise ApiFailure(str(error)) from None

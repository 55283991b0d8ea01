"""The rounds of a replica: one look at the cluster, and what follows.

The order matters. The webhook configuration is read before the Secret, and is only patched if it has not changed since.
So a leader that was held up cannot bring an old bundle back. Replicas do not tell each other what they serve. So an
authority is trusted for a while before it issues serving certificates, and for a while after it has issued the last
one (:class:`Pace`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from certs.certificate import TlsBundle, authority_of, encode, fingerprint
from certs.objects import (
    CertificateSpec,
    Material,
    Object,
    Registration,
    Stored,
    missing,
    read_registration,
    read_secret,
    repair,
    written_secret,
)
from certs.plan import SERVING, Situation, Steady, Step, carry_out, choose, decide, observe


class Cluster(Protocol):
    """The requests to the API server, as this package needs them. A caller supplies the implementation.

    Each may raise :class:`certs.ApiFailure`, and a write :class:`certs.Conflict` if the object is no longer the one
    that was read, or exists already.
    """

    async def configuration(self) -> Object | None:
        """Get the MutatingWebhookConfiguration; None if there is none."""

    async def secret(self) -> tuple[Object | None, datetime]:
        """Get the Secret, None if there is none, and the time of the answer by the API server's clock."""

    async def write_secret(self, manifest: Object) -> None:
        """Replace the Secret of the ``resourceVersion`` in ``manifest``; create one if it names none."""

    async def register(self, patch: Object) -> None:
        """Apply a strategic merge patch to the MutatingWebhookConfiguration."""

    async def lead(self) -> bool:
        """Take part in the election of a leader, and return whether this replica leads for now."""

    async def leave(self) -> None:
        """Let another replica lead, if this one does."""

    async def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """The pace of the care, in seconds by a clock that never goes back."""

    check: float = 15.0
    """The time between two looks at the Secret and the webhook configuration."""
    settle: float = 120.0
    """The time for which the webhook configuration must have named an authority before its certificates are served. API
    servers learn of it by a watch, each at its own time."""
    overlap: float = 3600.0
    """The time for which the old authority stays trusted after the Secret has told replicas to serve certificates of
    the new one. A replica that cannot reach the API server goes on with the old certificate, and may do so until
    ``settle`` before the end. There is time: the old authority has a third of its life left."""
    soon: float = 1.0
    """The time to the next look when something has just changed, or nothing can be served yet."""


class Change(NamedTuple):
    """One change that was made, for the log."""

    what: str
    why: str = ""


@dataclass(slots=True)
class Replica:
    """One process: what it works with, and its memory from one look to the next."""

    cluster: Cluster
    spec: CertificateSpec
    pace: Pace
    clock: Callable[[], float]
    """A clock in seconds that never goes back."""
    serve: Callable[[TlsBundle], None] = lambda _: None
    """Takes the pair to use in handshakes from now on."""
    in_hand: TlsBundle | None = None
    """The pair that this replica serves."""
    leads: bool = False
    trust: Steady | None = None
    """The authorities in the webhook configuration; None if no configuration has our webhooks."""
    offered: Steady | None = None
    """The authority of the certificate that the Secret tells replicas to serve."""
    at: datetime | None = None
    """The time of this round by the API server's clock; None if it did not get that far."""
    waiting_for: str = "a certificate"
    """The reason why nothing is served yet."""
    changes: list[Change] = field(default_factory=list)
    """The changes of the last round. The caller empties the list."""

    async def round(self) -> None:
        """Look at the cluster once, and act on it.

        Raises:
            SecretError: there is no Secret, or it is somebody else's. Of a missing one only the leader tells, and it
                looks again in the next round.
            BundleError: the pair in the Secret cannot be used.
            ApiFailure: a request failed.
        """
        self.at = None
        registration, stored, at = await self._look()
        self._follow(stored, at)
        self.leads = await self.cluster.lead()
        if not self.leads:
            return
        if stored is None:
            raise missing(self.spec)
        await self._lead(registration, stored, at)

    async def install(self) -> tuple[Change, ...]:
        """Act as a leader once, without an election, and make the Secret if there is none.

        The versions of the objects protect the writes of other processes.
        """
        await self._lead(*await self._look())
        return tuple(self.changes)

    async def _look(self) -> tuple[Registration | None, Stored | None, datetime]:
        registration = read_registration(await self.cluster.configuration(), self.spec)
        gap = self.pace.settle
        self.trust = observe(self.trust, registration.trusted, self.clock(), gap=gap) if registration else None
        secret, at = await self.cluster.secret()
        self.at = at
        stored = read_secret(secret, self.spec)
        serving = stored.material.serving if stored else None
        found = () if serving is None else (authority_of(serving),)
        self.offered = observe(self.offered, found, self.clock(), gap=gap)
        return registration, stored, at

    def _follow(self, stored: Stored | None, at: datetime) -> None:
        """Serve the pair in the Secret as soon as clients trust its authority."""
        offered = stored.material.serving if stored else None
        wanted = choose(self.in_hand, offered, self.trust, at, settle=self.pace.settle)
        if wanted is None:
            self.waiting_for = _lack(stored)
        elif wanted != self.in_hand:
            self.serve(wanted)
            self.in_hand, self.waiting_for = wanted, ""
            self.changes.append(Change("serving", f"authority {fingerprint(authority_of(wanted))[:16]}"))

    async def _lead(self, registration: Registration | None, stored: Stored | None, at: datetime) -> None:
        """Write the next step, and then patch the webhook configuration with the authorities of the Secret."""
        situation = self._situation(registration, stored, at)
        material = situation.material
        plan = decide(situation, self.spec)
        if plan.step is not Step.KEEP:
            material = carry_out(plan, situation, self.spec)
            request = _left(situation.request, plan.step, material)
            await self.cluster.write_secret(written_secret(stored, material, self.spec, request=request))
            self.changes.append(Change(plan.step, plan.why))
        if registration is not None and material is not None:
            patch = repair(registration, encode(material.authorities))
            if patch is not None:
                await self.cluster.register(patch)
                self.changes.append(Change("registered", ", ".join(each["name"] for each in patch["webhooks"])))

    def _situation(self, registration: Registration | None, stored: Stored | None, at: datetime) -> Situation:
        material, trust, offered = stored.material if stored else None, self.trust, self.offered
        upcoming = material.next if material else None
        first = next(iter(material.authorities), None) if material else None
        return Situation(
            material=material,
            request=stored.request if stored else "",
            in_hand=self.in_hand,
            named=registration.named if registration else (),
            is_settled=trust is None
            or (upcoming is not None and trust.seconds(upcoming.certificate) >= self.pace.settle),
            is_over=first is not None
            and all(steady is None or steady.seconds(first) >= self.pace.overlap for steady in (trust, offered)),
            now=at,
        )


def _left(request: str, step: Step, material: Material) -> str:
    """Return the part of a person's request that is still open after the step."""
    is_new = step is Step.SWITCH or (step is Step.ROTATE and material.next is None)
    return "" if is_new or (step is Step.RENEW and request == SERVING) else request


def _lack(stored: Stored | None) -> str:
    """Return the event that a replica without a certificate waits for."""
    if stored is None:
        return "the Secret to be made"
    if stored.material.serving is None:
        return "a certificate in the Secret"
    return "the webhook configuration to name the authority of the certificate"

"""The rounds of a replica: one look at the cluster, and what follows. Requests are yielded, so nothing waits here.

The order matters. The webhook configuration is read before the Secret, and is only patched if it has not changed since.
So a leader that was held up cannot bring an old bundle back. Replicas do not tell each other what they serve. So an
authority is trusted for a while before it issues serving certificates, and for a while after it has issued the last
one (:class:`certs.spec.Pace`).
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from certs.bundle import TlsBundle
from certs.certificate import encode, fingerprint
from certs.choice import choose
from certs.election import ObservedLease, lease_spec, look, may_lead
from certs.errors import Conflict
from certs.material import Material, authority_of
from certs.plan import SERVING, Situation, Step, carry_out, decide
from certs.requests import Answer, Create, Get, Kind, Patch, PatchType, Request, Serve
from certs.spec import CertificateSpec, Pace
from certs.stored import Stored, ask, missing, read_stored, write
from certs.trust import Registration, Steady, observe, read_registration, repair

Talk = Generator[Request, Answer, None]


@dataclass(frozen=True, slots=True)
class Change:
    """One change that was made, for the log."""

    what: str
    why: str = ""


@dataclass(slots=True)
class Replica:
    """One process: its identity, and its memory from one look to the next."""

    identity: str
    """A name that no other process has."""
    spec: CertificateSpec
    pace: Pace
    clock: Callable[[], float]
    """A clock in seconds that never goes back."""
    in_hand: TlsBundle | None = None
    """The pair that this replica serves."""
    leads: bool = False
    trust: Steady | None = None
    """The authorities in the webhook configuration; None if no configuration has our webhooks."""
    offered: Steady | None = None
    """The authority of the certificate that the Secret tells replicas to serve."""
    lease: ObservedLease | None = None
    waiting_for: str = "a certificate"
    """The reason why nothing is served yet."""
    changes: list[Change] = field(default_factory=list)
    """The changes of the last round. The caller empties the list."""

    def round(self) -> Talk:
        """Look at the cluster once, and act on it.

        Raises:
            MissingSecret: there is no Secret. Only the leader raises this, and it looks again in the next round.
        """
        registration, stored, at = yield from self._look()
        yield from self._follow(stored, at)
        self.leads = yield from self._elect(at)
        if not self.leads:
            return
        if stored is None:
            raise missing(self.spec)
        yield from self._lead(registration, stored, at)

    def install(self) -> Generator[Request, Answer, tuple[Change, ...]]:
        """Act as a leader once, without an election, and make the Secret if there is none.

        The versions of the objects protect the writes of other processes.
        """
        yield from self._lead(*(yield from self._look()))
        return tuple(self.changes)

    def leave(self, at: datetime) -> Talk:
        """Give back the Lease, so that another replica can lead."""
        if self.leads:
            self.leads = False
            answer = yield Get(Kind.LEASE, self.spec.leader_lease)
            if answer.found is not None and answer.found["spec"].get("holderIdentity") == self.identity:
                yield self._take(answer.found, at, held=False)

    def _look(self) -> Generator[Request, Answer, tuple[Registration | None, Stored | None, datetime]]:
        answer = yield Get(Kind.CONFIGURATION, self.spec.configuration)
        registration = read_registration(answer.found, self.spec) if answer.found is not None else None
        gap = self.pace.settle
        self.trust = observe(self.trust, registration.trusted, self.clock(), gap=gap) if registration else None
        answer = yield ask(self.spec)
        stored = read_stored(answer.found, self.spec)
        serving = stored.material.serving if stored else None
        found = () if serving is None else (authority_of(serving),)
        self.offered = observe(self.offered, found, self.clock(), gap=gap)
        return registration, stored, answer.at

    def _follow(self, stored: Stored | None, at: datetime) -> Talk:
        """Serve the pair in the Secret as soon as clients trust its authority."""
        offered = stored.material.serving if stored else None
        wanted = choose(self.in_hand, offered, self.trust, at, settle=self.pace.settle)
        if wanted is None:
            self.waiting_for = _lack(stored)
        elif wanted != self.in_hand:
            yield Serve(wanted)
            self.in_hand, self.waiting_for = wanted, ""
            self.changes.append(Change("serving", f"authority {fingerprint(authority_of(wanted))[:16]}"))

    def _elect(self, at: datetime) -> Generator[Request, Answer, bool]:
        """Take part in the election, and return whether this replica leads until the end of the round."""
        found = (yield Get(Kind.LEASE, self.spec.leader_lease)).found
        now = self.clock()
        if found is not None:
            self.lease = look(self.lease, found, now)
            if not may_lead(found, self.lease, self.identity, now, least=self.pace.lease):
                return False
        try:
            yield self._take(found, at)
        except Conflict:  # another replica was faster
            return False
        return True

    def _take(self, lease: Mapping[str, Any] | None, at: datetime, *, held: bool = True) -> Request:
        lease_body = lease_spec(lease, self.identity, at, duration=self.pace.lease, held=held)
        metadata = {"name": self.spec.leader_lease, "namespace": self.spec.namespace}
        if lease is None:
            header = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
            return Create(Kind.LEASE, header | {"spec": lease_body})
        version = {"resourceVersion": lease["metadata"]["resourceVersion"]}
        return Patch(Kind.LEASE, self.spec.leader_lease, {"metadata": version, "spec": lease_body}, PatchType.MERGE)

    def _lead(self, registration: Registration | None, stored: Stored | None, at: datetime) -> Talk:
        """Write the next step, and then patch the webhook configuration with the authorities of the Secret."""
        situation = self._situation(registration, stored, at)
        material = situation.material
        plan = decide(situation, self.spec)
        if plan.step is not Step.KEEP:
            material = carry_out(plan, situation, self.spec)
            yield write(stored, material, self.spec, request=_left(situation.request, plan.step, material))
            self.changes.append(Change(plan.step, plan.why))
        if registration is not None and material is not None:
            patch = repair(registration, encode(material.authorities))
            if patch is not None:
                yield Patch(Kind.CONFIGURATION, self.spec.configuration, patch, PatchType.STRATEGIC)
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

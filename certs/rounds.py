"""One look of a replica at the cluster, and what it does about it: requests are yielded, so that nothing waits here.

The order matters. The webhook configuration is read before the Secret, and is only patched if it has not changed since:
so a leader that was held up cannot bring an old bundle back. A replica says what it is going to serve before it does.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from certs.bundle import TlsBundle
from certs.certificate import encode, fingerprint
from certs.choice import choose
from certs.election import ObservedLease, lease_spec, look, may_lead
from certs.errors import Conflict
from certs.material import Material, authority_of
from certs.plan import SERVING, Plan, Situation, Step, carry_out, decide
from certs.replicas import API_VERSION, Fleet, Identity, muster, report
from certs.requests import Answer, Create, Get, Kind, List, Patch, PatchType, Request, Serve
from certs.spec import CertificateSpec, Pace
from certs.stored import Stored, ask, missing, read_stored, write
from certs.trust import Registration, Trust, observe, read_registration, repair

Talk = Generator[Request, Answer, None]


@dataclass(frozen=True, slots=True)
class Change:
    """Something that was done, for the log."""

    what: str
    why: str = ""


@dataclass(slots=True)
class Replica:
    """One process: who it is, and what it remembers from one look to the next."""

    identity: Identity
    spec: CertificateSpec
    pace: Pace
    clock: Callable[[], float]
    """Seconds that never go back."""
    in_hand: TlsBundle | None = None
    """What it serves."""
    leads: bool = False
    trust: Trust | None = None
    lease: ObservedLease | None = None
    fleet: Fleet | None = None
    reported: frozenset[str] = frozenset()
    reported_at: float = 0.0
    unregistered: bool = False
    """Whether the cluster has no webhook configuration with our webhooks."""
    waiting_for: str = "a certificate"
    """Why nothing is served yet."""
    changes: list[Change] = field(default_factory=list)
    """What the last round did; whoever runs it empties the list."""

    def round(self) -> Talk:
        """Look once, and do what follows.

        Raises:
            MissingSecret: there is none. Only the leader says so; it looks again in the next round.
        """
        registration = yield from self._registration()
        answer = yield ask(self.spec)
        stored = read_stored(answer.found, self.spec)
        yield from self._follow(stored, answer.at)
        self.leads = yield from self._elect(answer.at)
        if not self.leads:
            return
        if stored is None:
            raise missing(self.spec)
        yield from self._lead(registration, stored, answer.at)

    def install(self) -> Generator[Request, Answer, tuple[Change, ...]]:
        """Do once, without an election, what a leader does, and make the Secret if there is none.

        Versions of the objects keep others from harm.
        """
        registration = yield from self._registration()
        answer = yield ask(self.spec)
        yield from self._lead(registration, read_stored(answer.found, self.spec), answer.at)
        return tuple(self.changes)

    def leave(self, at: datetime) -> Talk:
        """Say that nothing is served any more, and let another replica lead."""
        yield from self._report(frozenset(), at)
        if self.leads:
            self.leads = False
            answer = yield Get(Kind.LEASE, self.spec.leader_lease)
            if answer.found is not None and answer.found["spec"].get("holderIdentity") == str(self.identity):
                yield self._take(answer.found, at, held=False)

    def _registration(self) -> Generator[Request, Answer, Registration | None]:
        answer = yield Get(Kind.CONFIGURATION, self.spec.configuration)
        found = read_registration(answer.found, self.spec) if answer.found is not None else None
        self.unregistered = found is None
        self.trust = observe(self.trust, found, self.clock(), settle=self.pace.settle) if found else None
        return found

    def _follow(self, stored: Stored | None, at: datetime) -> Talk:
        """Serve what the Secret holds, as soon as clients trust it."""
        material = stored.material if stored else Material()
        wanted = choose(self.in_hand, material, self.trust, at, settle=self.pace.settle)
        if wanted is None:
            self.waiting_for = _lack(stored)
            return
        new = frozenset((fingerprint(authority_of(wanted)),))
        if wanted == self.in_hand:
            if self.reported != new or self.clock() - self.reported_at >= self.pace.report:
                yield from self._report(new, at)
            return
        if not new <= self.reported or self.in_hand is None:
            old = frozenset() if self.in_hand is None else frozenset((fingerprint(authority_of(self.in_hand)),))
            yield from self._report(old | new, at)
        if self.in_hand is None:
            # The writer of the Secret did not know this replica. If it is still the same, the next decision counts us.
            again = read_stored((yield ask(self.spec)).found, self.spec)
            if stored is None or again is None or again.resource_version != stored.resource_version:
                raise Conflict(f"Secret {self.spec.secret}: it was written while this replica began")
        yield Serve(wanted)
        self.in_hand, self.waiting_for = wanted, ""
        self.changes.append(Change("serving", f"authority {fingerprint(authority_of(wanted))[:16]}"))
        if self.reported != new:
            yield from self._report(new, at)

    def _report(self, serves: frozenset[str], at: datetime) -> Talk:
        manifest = report(self.spec, self.identity, serves, at, every=self.pace.gone)
        self.reported_at = self.clock()
        yield Patch(Kind.LEASE, manifest["metadata"]["name"], manifest, PatchType.APPLY)
        self.reported = serves

    def _elect(self, at: datetime) -> Generator[Request, Answer, bool]:
        """Whether this replica leads until the end of the round."""
        found = (yield Get(Kind.LEASE, self.spec.leader_lease)).found
        now = self.clock()
        if found is not None:
            self.lease = look(self.lease, found, now)
            if not may_lead(found, self.lease, str(self.identity), now, least=self.pace.lease):
                return False
        try:
            yield self._take(found, at)
        except Conflict:  # another replica was quicker
            return False
        return True

    def _take(self, found: object, at: datetime, *, held: bool = True) -> Request:
        lease = found if isinstance(found, dict) else None
        lease_body = lease_spec(lease, str(self.identity), at, duration=self.pace.lease, held=held)
        metadata = {"name": self.spec.leader_lease, "namespace": self.spec.namespace}
        if lease is None:
            manifest = {"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": lease_body}
            return Create(Kind.LEASE, manifest)
        version = {"resourceVersion": lease["metadata"]["resourceVersion"]}
        return Patch(Kind.LEASE, self.spec.leader_lease, {"metadata": version, "spec": lease_body}, PatchType.MERGE)

    def _lead(self, registration: Registration | None, stored: Stored | None, at: datetime) -> Talk:
        """Take the next step, and then let the webhook configuration name what the Secret says."""
        material = stored.material if stored else None
        served = None
        is_quiet = material is not None and material.is_settled
        if not is_quiet or (registration and repair(registration, encode(material.authorities if material else ()))):
            label = f"{self.spec.marks.replica}={self.spec.secret}"
            leases = (yield List(Kind.LEASE, label)).found
            self.fleet = muster(self.fleet, _items(leases), self.clock(), self.spec, gone=self.pace.gone)
            # A list without ourselves is not the whole list.
            whole = self.spec.replica_lease(self.identity.pod) in self.fleet.served
            served = self.fleet.served if whole or not is_begun(material) else None
        situation = Situation(
            material=material,
            request=stored.request if stored else "",
            in_hand=self.in_hand,
            trusted=registration.named if registration else (),
            served=served,
            now=at,
        )
        plan = decide(situation, self.spec)
        if plan.step is not Step.KEEP:
            material = carry_out(plan, situation, self.spec)
            yield write(stored, material, self.spec, request=_left(situation.request, plan))
            self.changes.append(Change(plan.step, plan.why))
        if registration is not None and material is not None:
            patch = repair(registration, encode(material.authorities))
            if patch is not None:
                yield Patch(Kind.CONFIGURATION, self.spec.configuration, patch, PatchType.STRATEGIC)
                self.changes.append(Change("registered", ", ".join(each["name"] for each in patch["webhooks"])))


def is_begun(material: Material | None) -> bool:
    """Whether a rotation is going on that must not end before every replica has followed."""
    return material is not None and bool(material.authorities) and not material.is_settled


def _left(request: str, plan: Plan) -> str:
    """What a person asked for that is still to be done after the step."""
    if plan.step is Step.ROTATE or (plan.step is Step.RENEW and request == SERVING):
        return ""
    return request


def _items(answer: object) -> Iterator[dict[str, object]]:
    items = answer.get("items") if isinstance(answer, dict) else None
    return (item for item in items or () if isinstance(item, dict))


def _lack(stored: Stored | None) -> str:
    """What a replica that serves nothing waits for."""
    if stored is None:
        return "the Secret to be made"
    if stored.material.serving is None:
        return "a certificate in the Secret"
    return "the webhook configuration to name the authority of the certificate"

"""The decisions about certificates, from values alone: the leader's next step, and what a replica serves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from cryptography import x509

from certs.certificate import (
    TlsBundle,
    authority_of,
    due,
    fingerprint,
    is_in_date,
    issue_serving,
    leaf,
    names,
    new_authority,
    normal_name,
)
from certs.objects import CertificateSpec, Material

MOST_AUTHORITIES = 8
"""The most authorities in a Secret. Clocks that jump to and fro may make many, and clients try them all."""
SERVING, AUTHORITY = "serving", "authority"
"""The two renewals that a person may request."""


class Step(StrEnum):
    """One write of the Secret. Every state between two steps serves all clients."""

    KEEP = "keep"
    """Write nothing."""
    RENEW = "renew"
    """Issue a new serving certificate by the same authority."""
    ROTATE = "rotate"
    """Make a new authority. It issues once clients trust it, or at once if clients trust no other."""
    SWITCH = "switch"
    """Issue the serving certificate by the new authority; the old ones stay trusted."""
    FINISH = "finish"
    """Trust only the new authority."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A step and its reason."""

    step: Step
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """All values on which the decision depends."""

    material: Material | None
    """The content of the Secret; None if there is no Secret."""
    request: str = ""
    """The renewal that a person requests: :data:`SERVING`, :data:`AUTHORITY`, or empty."""
    in_hand: TlsBundle | None = None
    """The pair that this replica serves."""
    named: tuple[x509.Certificate, ...] = ()
    """The authorities that the webhook configuration names."""
    is_settled: bool = False
    """True if API servers have had the time to learn of the next authority."""
    is_over: bool = False
    """True if replicas have had the time to follow to the first authority."""
    now: datetime
    """The time by the API server's clock, because API servers check the certificates."""


@dataclass(frozen=True, slots=True)
class Steady:
    """The authorities that one observer has found at every look, and since when, by its own clock."""

    since: Mapping[str, float]
    """The time of the first look, by fingerprint."""
    at: float
    """The time of the last look."""

    def has(self, authority: x509.Certificate) -> bool:
        """Return whether the last look found the authority."""
        return fingerprint(authority) in self.since

    def seconds(self, authority: x509.Certificate) -> float:
        """Return the seconds for which every look has found the authority; 0 if the last one did not."""
        return self.at - self.since.get(fingerprint(authority), self.at)


def decide(situation: Situation, spec: CertificateSpec) -> Plan:
    """Return the next step."""
    found, now = situation.material, situation.now
    if found is None:
        return Plan(Step.ROTATE, "there is no Secret")
    upcoming = found.next is not None and is_in_date(found.next.certificate, now)
    if not upcoming and (why := _end_of_authority(found, situation)):
        return Plan(Step.ROTATE, why)
    if _is_strange(situation):
        return Plan(Step.ROTATE, "the Secret does not have the authority whose certificate is served")
    if upcoming and (situation.is_settled or not is_in_date(found.authorities[0], now)):
        return Plan(Step.SWITCH, "API servers know the new authority")
    if found.signer is not None and (why := _end_of_serving(found, situation, spec)):
        return Plan(Step.RENEW, why)
    follows = situation.in_hand is None or authority_of(situation.in_hand) == found.authorities[0]
    if len(found.authorities) > 1 and not upcoming and situation.is_over and follows:
        return Plan(Step.FINISH, "the overlap is over")
    return Plan(Step.KEEP, "")


def carry_out(plan: Plan, situation: Situation, spec: CertificateSpec) -> Material:
    """Return the content of the Secret after ``plan``, with fresh keys where it needs some."""
    found, now = situation.material or Material(), situation.now
    if plan.step is Step.ROTATE:
        return _rotated(found, situation, spec)
    if plan.step is Step.SWITCH and found.next is not None:
        serving = issue_serving(spec.names, found.next, now=now, lifetime=spec.lifetime)
        trusted = _kept((found.next.certificate, *found.authorities), now)
        return Material(trusted, found.next.key, serving)
    if plan.step is Step.RENEW and found.signer is not None:
        return replace(found, serving=issue_serving(spec.names, found.signer, now=now, lifetime=spec.lifetime))
    if plan.step is Step.FINISH:
        return Material(found.authorities[:1], found.authority_key, found.serving)
    return found


def observe(before: Steady | None, found: Iterable[x509.Certificate], now: float, *, gap: float) -> Steady:
    """Return the observation after another look, which found these authorities.

    An observer that has not looked for ``gap`` seconds begins anew, because others may not have reached the API server
    either.
    """
    known = before.since if before is not None and now - before.at <= gap else {}
    return Steady({name: known.get(name, now) for name in map(fingerprint, found)}, now)


def choose(
    in_hand: TlsBundle | None, offered: TlsBundle | None, trust: Steady | None, now: datetime, *, settle: float
) -> TlsBundle | None:
    """Return the certificate to serve from now on, or None if there is nothing to serve yet.

    A replica leaves an authority that clients trust only after the configuration has named the new one for ``settle``
    seconds. The leader has waited as long, but a Secret from a backup brings an authority back at once.

    Args:
        in_hand: The pair that this replica serves.
        offered: The pair in the Secret.
        trust: The authorities in the webhook configuration; None if there is no such configuration.
        now: The time by the API server's clock.
        settle: The seconds for which the configuration must have named another authority.
    """
    if offered is None or not is_in_date(leaf(offered), now):
        return in_hand
    new = authority_of(offered)
    if in_hand is None:
        return offered if trust is None or trust.has(new) else None
    old = authority_of(in_hand)
    if old == new or trust is None or not is_in_date(leaf(in_hand), now):
        return offered
    is_settled = trust.seconds(new) >= settle
    return offered if is_settled or (trust.has(new) and not trust.has(old)) else in_hand


def _rotated(found: Material, situation: Situation, spec: CertificateSpec) -> Material:
    """Add a new authority; the trusted authorities and the serving certificate stay."""
    now = situation.now
    new = new_authority(now=now, lifetime=spec.authority_lifetime)
    is_strange = _is_strange(situation)
    pairs = (situation.in_hand, found.serving) if is_strange else (found.serving, situation.in_hand)
    serving = next((pair for pair in pairs if pair is not None and is_in_date(leaf(pair), now)), None)
    # A lost Secret no longer names the authorities of certificates that replicas serve. The webhook configuration does.
    lost = situation.named if is_strange or found.signer is None else ()
    issuer = () if serving is None else (authority_of(serving),)
    trusted = _kept((*issuer, *found.authorities, *lost), now)
    if not trusted:
        return Material((new.certificate,), new.key, issue_serving(spec.names, new, now=now, lifetime=spec.lifetime))
    key = found.authority_key if trusted[:1] == found.authorities[:1] else b""
    return Material(_kept((trusted[0], new.certificate, *trusted[1:]), now), key, serving, new)


def _is_strange(situation: Situation) -> bool:
    """Return whether this replica serves a certificate of an authority that is not in the Secret."""
    found, in_hand = situation.material or Material(), situation.in_hand
    if in_hand is None or not is_in_date(leaf(in_hand), situation.now):
        return False
    return authority_of(in_hand) not in found.authorities


def _end_of_authority(found: Material, situation: Situation) -> str:
    """Return the reason for a new authority, or an empty text."""
    if not found.authorities or found.signer is None:
        return "; ".join(found.faults) or "no authority can issue"
    signer, now = found.authorities[0], situation.now
    if not is_in_date(signer, now):
        return f"the authority is valid {_dates(signer)} only"
    if situation.request == AUTHORITY:
        return "it was asked for"
    # Also during an earlier rotation, because one that never finishes must not let the authority end.
    return "two thirds of the authority's life are over" if now >= due(signer) else ""


def _end_of_serving(found: Material, situation: Situation, spec: CertificateSpec) -> str:
    """Return the reason for a new serving certificate, or an empty text."""
    if found.serving is None:
        return "; ".join(found.faults) or "no serving certificate"
    certificate, now = leaf(found.serving), situation.now
    if not is_in_date(certificate, now):
        return f"the serving certificate is valid {_dates(certificate)} only"
    if missing := sorted(frozenset(map(normal_name, spec.names)) - names(certificate)):
        return f"the serving certificate is not for {', '.join(missing)}"
    if authority_of(found.serving) != found.authorities[0]:
        return "the serving certificate is not of the first authority"
    if situation.request == SERVING:
        return "it was asked for"
    return "two thirds of the certificate's life are over" if now >= due(certificate) else ""


def _kept(authorities: Iterable[x509.Certificate], now: datetime) -> tuple[x509.Certificate, ...]:
    """Return the authorities that have not ended, each once, the most needed first.

    An authority that begins later stays, because the clock may be wrong.
    """
    found = dict.fromkeys(each for each in authorities if now < each.not_valid_after_utc)
    return tuple(found)[:MOST_AUTHORITIES]


def _dates(certificate: x509.Certificate) -> str:
    return f"from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} to {certificate.not_valid_after_utc:%Y-%m-%d %H:%M}"

"""What the leader does about the Secret: a decision from values alone."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from cryptography import x509

from certs.bundle import TlsBundle
from certs.certificate import due, is_in_date, names, normal_name
from certs.issue import issue_serving, new_authority
from certs.material import MOST_AUTHORITIES, Material, authority_of, leaf
from certs.spec import CertificateSpec

SERVING, AUTHORITY = "serving", "authority"
"""What a person may ask to be renewed at once."""


class Step(StrEnum):
    """One write of the Secret. Each state between two steps serves all clients."""

    KEEP = "keep"
    """Nothing."""
    RENEW = "renew"
    """A new serving certificate of the same authority."""
    ROTATE = "rotate"
    """A new authority, which is to be trusted before it issues. Where no other one is trusted it issues at once."""
    SWITCH = "switch"
    """The new authority issues what is served; the old ones stay trusted."""
    FINISH = "finish"
    """Only the new authority stays trusted."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A step, and why."""

    step: Step
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """All that the decision looks at."""

    material: Material | None
    """Of the Secret; None where there is none."""
    request: str = ""
    """What a person asks for: :data:`SERVING`, :data:`AUTHORITY`, or nothing."""
    in_hand: TlsBundle | None = None
    """What this replica serves itself."""
    named: tuple[x509.Certificate, ...] = ()
    """The authorities that the webhook configuration names."""
    is_settled: bool = False
    """Whether API servers have had the time to learn of the next authority."""
    is_over: bool = False
    """Whether replicas have had the time to follow to the first authority."""
    now: datetime
    """By the API server's clock, because API servers check the certificates."""


def decide(situation: Situation, spec: CertificateSpec) -> Plan:
    """The next step."""
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
    """What the Secret holds after ``plan``, with fresh keys where it needs some."""
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


def _rotated(found: Material, situation: Situation, spec: CertificateSpec) -> Material:
    """What is trusted and served stays, and a new authority comes beside it."""
    now = situation.now
    new = new_authority(now=now, lifetime=spec.authority_lifetime)
    is_strange = _is_strange(situation)
    pairs = (situation.in_hand, found.serving) if is_strange else (found.serving, situation.in_hand)
    serving = next((pair for pair in pairs if pair is not None and is_in_date(leaf(pair), now)), None)
    # A Secret that is lost says no more whose certificates replicas serve; the webhook configuration still does.
    lost = situation.named if is_strange or found.signer is None else ()
    issuer = () if serving is None else (authority_of(serving),)
    trusted = _kept((*issuer, *found.authorities, *lost), now)
    if not trusted:
        return Material((new.certificate,), new.key, issue_serving(spec.names, new, now=now, lifetime=spec.lifetime))
    key = found.authority_key if trusted[:1] == found.authorities[:1] else b""
    return Material(_kept((trusted[0], new.certificate, *trusted[1:]), now), key, serving, new)


def _is_strange(situation: Situation) -> bool:
    """Whether what this replica serves is of an authority that the Secret does not know."""
    found, in_hand = situation.material or Material(), situation.in_hand
    if in_hand is None or not is_in_date(leaf(in_hand), situation.now):
        return False
    return authority_of(in_hand) not in found.authorities


def _end_of_authority(found: Material, situation: Situation) -> str:
    """Why another authority must come; empty if none must."""
    if not found.authorities or found.signer is None:
        return "; ".join(found.faults) or "no authority can issue"
    signer, now = found.authorities[0], situation.now
    if not is_in_date(signer, now):
        return f"the authority is valid {_dates(signer)} only"
    if situation.request == AUTHORITY:
        return "it was asked for"
    # Also while an earlier rotation goes on: one that never ends must not make the authority end.
    return "two thirds of the authority's life are over" if now >= due(signer) else ""


def _end_of_serving(found: Material, situation: Situation, spec: CertificateSpec) -> str:
    """Why another serving certificate must come; empty if none must."""
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
    """Those that have not ended, each once, the most needed first; what begins later may be right after all."""
    found = dict.fromkeys(each for each in authorities if now < each.not_valid_after_utc)
    return tuple(found)[:MOST_AUTHORITIES]


def _dates(certificate: x509.Certificate) -> str:
    return f"from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} to {certificate.not_valid_after_utc:%Y-%m-%d %H:%M}"

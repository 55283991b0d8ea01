"""What the leader does about the Secret: a decision from values alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from cryptography import x509

from certs.bundle import TlsBundle
from certs.certificate import due, fingerprint, is_in_date, names, normal_name
from certs.issue import issue_serving, new_authority
from certs.material import MOST_AUTHORITIES, Material, authority_of, leaf
from certs.spec import CertificateSpec

SERVING, AUTHORITY = "serving", "authority"
"""What a person may ask to be renewed at once."""


class Step(StrEnum):
    """What to write into the Secret. Each is one write, and each state between two steps serves all clients."""

    KEEP = "keep"
    """Nothing."""
    RENEW = "renew"
    """A new serving certificate of the same authority."""
    ROTATE = "rotate"
    """A new authority with a serving certificate; the old ones stay trusted."""
    ADOPT = "adopt"
    """Trust an authority again whose certificates are still served."""
    RETIRE = "retire"
    """No replica serves a certificate of an old authority: let no replica begin with one."""
    FINISH = "finish"
    """No replica can serve one any more: trust only the new authority."""


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
    trusted: tuple[x509.Certificate, ...] = ()
    """The authorities that the webhook configuration names."""
    served: Mapping[str, frozenset[str]] | None = None
    """By live replica, the fingerprints of the authorities whose certificates it serves; None if not asked for."""
    now: datetime
    """By the API server's clock, because API servers check the certificates."""


def decide(situation: Situation, spec: CertificateSpec) -> Plan:
    """The next step."""
    now, found = situation.now, situation.material
    if found is None:
        return Plan(Step.ROTATE, "there is no Secret")
    if not found.authorities or found.signer is None:
        return Plan(Step.ROTATE, "; ".join(found.faults) or "no authority can issue")
    signer = found.authorities[0]
    if not is_in_date(signer, now):
        return Plan(Step.ROTATE, f"the authority is valid {_dates(signer)} only")
    # Also while an earlier rotation goes on: one that never ends must not make the authority end.
    if situation.request == AUTHORITY or now >= due(signer):
        asked = situation.request == AUTHORITY
        return Plan(Step.ROTATE, "it was asked for" if asked else "two thirds of the authority's life are over")
    if fault := _fault(found, spec, now):
        return Plan(Step.RENEW, fault)
    if situation.request == SERVING or now >= due(leaf_of(found)):
        asked = situation.request == SERVING
        return Plan(Step.RENEW, "it was asked for" if asked else "two thirds of the certificate's life are over")
    if adopted := adoptable(situation, found.authorities):
        return Plan(Step.ADOPT, f"still served: {', '.join(map(fingerprint, adopted))}")
    return _go_on(found, situation.served)


def carry_out(plan: Plan, situation: Situation, spec: CertificateSpec) -> Material:
    """What the Secret holds after ``plan``, with fresh keys where it needs some."""
    found, now = situation.material or Material(), situation.now
    if plan.step is Step.ROTATE:
        authority = new_authority(now=now, lifetime=spec.authority_lifetime)
        serving = issue_serving(spec.names, authority, now=now, lifetime=spec.lifetime)
        # What clients trust for sure comes first: the pair in the Secret may be the new one of a rotation that goes on.
        previous = _usable(now, situation.in_hand, found.previous, found.serving)
        old = [*([authority_of(previous)] if previous else []), *found.authorities, *adoptable(situation, ())]
        return Material(_kept([authority.certificate, *old], now), authority.key, serving, previous)
    if plan.step is Step.RENEW and found.signer is not None:
        serving = issue_serving(spec.names, found.signer, now=now, lifetime=spec.lifetime)
        strange = found.serving is not None and authority_of(found.serving) != found.authorities[0]
        previous = found.previous or (_usable(now, found.serving) if strange else None)
        return Material(found.authorities, found.authority_key, serving, previous)
    if plan.step is Step.ADOPT:
        all_of_them = _kept([*found.authorities, *adoptable(situation, found.authorities)], now)
        previous = found.previous or (_usable(now, situation.in_hand) if is_strange(situation, found) else None)
        return Material(all_of_them, found.authority_key, found.serving, previous)
    if plan.step is Step.RETIRE:
        return Material(found.authorities, found.authority_key, found.serving)
    if plan.step is Step.FINISH:
        return Material(found.authorities[:1], found.authority_key, found.serving)
    return found


def leaf_of(material: Material) -> x509.Certificate:
    """The serving certificate of usable material."""
    if material.serving is None:
        raise ValueError("expected material with a serving certificate")
    return leaf(material.serving)


def adoptable(situation: Situation, known: Iterable[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """Authorities that are not among ``known`` although live replicas serve certificates of them.

    They come from the webhook configuration and from what this replica serves. What no replica serves stays out, so an
    authority that a stranger put into the configuration does not get in this way.
    """
    served = frozenset[str]().union(*(situation.served or {}).values())
    candidates = [each for each in situation.trusted if fingerprint(each) in served]
    if situation.in_hand is not None:
        candidates.append(authority_of(situation.in_hand))
    found = [each for each in dict.fromkeys(candidates) if each not in tuple(known)]
    return tuple(each for each in found if situation.now < each.not_valid_after_utc)


def is_strange(situation: Situation, material: Material) -> bool:
    """Whether what this replica serves is of an authority that the Secret does not know."""
    return situation.in_hand is not None and authority_of(situation.in_hand) not in material.authorities


def _go_on(found: Material, served: Mapping[str, frozenset[str]] | None) -> Plan:
    """With the rotation that is going on, if one is."""
    if found.is_settled:
        return Plan(Step.KEEP, "")
    if not served:
        return Plan(Step.KEEP, "it is not known what the replicas serve")
    new = frozenset((fingerprint(found.authorities[0]),))
    behind = sorted(name for name, authorities in served.items() if authorities != new)
    if behind:
        return Plan(Step.KEEP, f"not yet on the new authority: {', '.join(behind)}")
    if found.previous is not None:
        return Plan(Step.RETIRE, "every replica serves a certificate of the new authority")
    return Plan(Step.FINISH, "every replica serves a certificate of the new authority")


def _fault(found: Material, spec: CertificateSpec, now: datetime) -> str:
    """Why the serving certificate cannot stay; empty if it can."""
    if found.serving is None:
        return "; ".join(found.faults) or "no serving certificate"
    certificate = leaf(found.serving)
    if not is_in_date(certificate, now):
        return f"the serving certificate is valid {_dates(certificate)} only"
    if missing := sorted(frozenset(map(normal_name, spec.names)) - names(certificate)):
        return f"the serving certificate is not for {', '.join(missing)}"
    if authority_of(found.serving) != found.authorities[0]:
        return "the serving certificate is not of the first authority"
    return ""


def _kept(authorities: Iterable[x509.Certificate], now: datetime) -> tuple[x509.Certificate, ...]:
    """Without those that have ended, each once, the newest first; what begins later may be right after all."""
    found = dict.fromkeys(each for each in authorities if now < each.not_valid_after_utc)
    return tuple(found)[:MOST_AUTHORITIES]


def _usable(now: datetime, *pairs: TlsBundle | None) -> TlsBundle | None:
    return next((pair for pair in pairs if pair is not None and is_in_date(leaf(pair), now)), None)


def _dates(certificate: x509.Certificate) -> str:
    return f"from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} to {certificate.not_valid_after_utc:%Y-%m-%d %H:%M}"

"""Which certificate a replica serves: a decision from values alone."""

from datetime import datetime

from cryptography import x509

from certs.bundle import TlsBundle
from certs.certificate import is_in_date
from certs.material import Material, authority_of, leaf
from certs.trust import Trust


def choose(
    in_hand: TlsBundle | None, material: Material, trust: Trust | None, now: datetime, *, settle: float
) -> TlsBundle | None:
    """What to serve from now on; None where there is nothing to serve yet.

    Args:
        in_hand: What this replica serves.
        material: Of the Secret.
        trust: What the webhook configuration names; None where there is no such configuration.
        now: By the API server's clock.
        settle: How long, in seconds, the configuration must have named an authority.
    """
    wanted = _in_date(material.serving, now)
    if in_hand is None:
        return _begin(material, wanted, trust, now, settle)
    if wanted is None:
        return in_hand
    old, new = authority_of(in_hand), authority_of(wanted)
    if old == new or trust is None or _in_date(in_hand, now) is None:
        return wanted
    if trust.is_settled(new, settle=settle) or (trust.has(new) and not trust.has(old)):
        return wanted
    return in_hand


def _begin(
    material: Material, wanted: TlsBundle | None, trust: Trust | None, now: datetime, settle: float
) -> TlsBundle | None:
    """The first certificate of a replica, which knows nothing of the time before it."""
    previous = _in_date(material.previous, now)
    if previous is not None and _is_named(authority_of(previous), trust):
        return previous
    if wanted is None or not _is_named(authority_of(wanted), trust):
        return None
    # Others still serve certificates of another authority. They do so until this one has settled, and so can wait.
    if trust is None or len(material.authorities) == 1 or trust.is_settled(authority_of(wanted), settle=settle):
        return wanted
    return None


def _is_named(authority: x509.Certificate, trust: Trust | None) -> bool:
    return trust is None or trust.has(authority)


def _in_date(pair: TlsBundle | None, now: datetime) -> TlsBundle | None:
    return pair if pair is not None and is_in_date(leaf(pair), now) else None

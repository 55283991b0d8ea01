"""Which certificate a replica serves: a decision from values alone."""

from datetime import datetime

from certs.bundle import TlsBundle
from certs.certificate import is_in_date
from certs.material import authority_of, leaf
from certs.trust import Steady


def choose(
    in_hand: TlsBundle | None, offered: TlsBundle | None, trust: Steady | None, now: datetime, *, settle: float
) -> TlsBundle | None:
    """The certificate to serve from now on; None where there is nothing to serve yet.

    Another authority must be named for ``settle`` seconds before this replica leaves one that clients trust, although
    the leader has waited as long: a Secret from a backup brings an authority back at once.

    Args:
        in_hand: What this replica serves.
        offered: What the Secret says it should serve.
        trust: What the webhook configuration names; None where there is no such configuration.
        now: By the API server's clock.
        settle: How long, in seconds, the configuration must have named another authority.
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

"""The choice of the certificate that a replica serves, from values alone."""

from datetime import datetime

from certs.bundle import TlsBundle
from certs.certificate import is_in_date
from certs.material import authority_of, leaf
from certs.trust import Steady


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

"""How often something may be done: token buckets. Pure: whoever asks says what time it is."""

from collections import OrderedDict
from typing import NamedTuple

KEYS_KEPT = 4096


class Rate(NamedTuple):
    """How many at once, and how many a second afterwards."""

    burst: int
    per_second: float


class TokenBucket:
    """Full at the start; each thing that is done takes a token, and time brings them back."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._at: float | None = None

    def has(self, now: float) -> bool:
        """Whether there is a token at ``now``, in seconds of a clock that never goes back."""
        if self._at is not None:
            earned = max(now - self._at, 0.0) * self._rate.per_second
            self._tokens = min(self._tokens + earned, float(self._rate.burst))
        self._at = now
        return self._tokens >= 1

    def take(self, now: float) -> bool:
        """Take a token; whether there was one."""
        if not self.has(now):
            return False
        self._tokens -= 1
        return True


class Buckets:
    """A bucket for each key, such as a namespace, and one for all together.

    Args:
        each: For one key.
        total: For all.
        kept: How many keys are remembered; one that was not used for the longest time is forgotten first.
    """

    def __init__(self, *, each: Rate, total: Rate, kept: int = KEYS_KEPT) -> None:
        self._each = each
        self._total = TokenBucket(total)
        self._kept = kept
        self._by_key: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, key: str, now: float) -> bool:
        """Take a token of the key and one of all; whether there were both. Else none is taken."""
        bucket = self._by_key.pop(key, None) or TokenBucket(self._each)
        self._by_key[key] = bucket
        if len(self._by_key) > self._kept:
            self._by_key.popitem(last=False)
        return bucket.has(now) and self._total.take(now) and bucket.take(now)

"""Rate limits as token buckets. Pure: the time is an argument."""

from collections import OrderedDict
from typing import NamedTuple

KEYS_KEPT = 4096


class Rate(NamedTuple):
    """A rate: the number at once, and the number per second afterwards."""

    burst: int
    per_second: float


class TokenBucket:
    """A bucket that is full at the start. Each action takes a token, and time brings tokens back."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._at: float | None = None

    def has(self, now: float) -> bool:
        """Return whether there is a token at ``now``, in seconds of a clock that never goes back."""
        if self._at is not None:
            earned = max(now - self._at, 0.0) * self._rate.per_second
            self._tokens = min(self._tokens + earned, float(self._rate.burst))
        self._at = now
        return self._tokens >= 1

    def take(self, now: float) -> bool:
        """Take a token, and return whether there was one."""
        if not self.has(now):
            return False
        self._tokens -= 1
        return True


class Buckets:
    """A bucket for each key, such as a namespace, and one for all keys together.

    Args:
        each: The rate of one key.
        total: The rate of all keys.
        kept: The number of keys in memory. The key unused for the longest time is dropped first.
    """

    def __init__(self, *, each: Rate, total: Rate, kept: int = KEYS_KEPT) -> None:
        self._each = each
        self._total = TokenBucket(total)
        self._kept = kept
        self._by_key: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, key: str, now: float) -> bool:
        """Take a token of the key and one of all, and return whether there were both. Otherwise none is taken."""
        if key not in self._by_key:
            self._by_key[key] = TokenBucket(self._each)
        self._by_key.move_to_end(key)
        bucket = self._by_key[key]
        if len(self._by_key) > self._kept:
            self._by_key.popitem(last=False)
        return bucket.has(now) and self._total.take(now) and bucket.take(now)

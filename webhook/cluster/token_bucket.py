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


class Reserve(NamedTuple):
    """Tokens for keys that take few, so that keys that take many leave some for all others."""

    each: Rate
    """The rate up to which a key takes few."""
    total: Rate


_NO_RESERVE = Reserve(Rate(0, 0), Rate(0, 0))


class Buckets:
    """A bucket for each key, such as a namespace, and one for all keys together.

    Args:
        each: The rate of one key.
        total: The rate of all keys.
        reserve: More tokens, once there are none of the total.
        kept: The number of keys in memory. The key unused for the longest time is dropped first.
    """

    def __init__(self, *, each: Rate, total: Rate, reserve: Reserve = _NO_RESERVE, kept: int = KEYS_KEPT) -> None:
        self._each, self._few = each, reserve.each
        self._total, self._reserve = TokenBucket(total), TokenBucket(reserve.total)
        self._kept = kept
        self._by_key: OrderedDict[str, tuple[TokenBucket, TokenBucket]] = OrderedDict()
        """For each key its bucket, and one that has tokens as long as the key takes few."""

    def take(self, key: str, now: float) -> bool:
        """Take a token of the key and one of all, and return whether there were both. Otherwise none is taken."""
        if key not in self._by_key:
            self._by_key[key] = TokenBucket(self._each), TokenBucket(self._few)
        self._by_key.move_to_end(key)
        bucket, few = self._by_key[key]
        if len(self._by_key) > self._kept:
            self._by_key.popitem(last=False)
        if not bucket.has(now):
            return False
        takes_few = few.take(now)
        return (self._total.take(now) or (takes_few and self._reserve.take(now))) and bucket.take(now)

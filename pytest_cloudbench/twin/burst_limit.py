"""What may be served of one resource over time: a plain limit, or a burst while credits last.

The law is promises.credits; here it is kept for something that is really being served, in ticks: idle time is
made up for when it ends, and small errors of the throttle neither cost nor give credits.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_cloudbench.promises.credits import CreditRule

_LAST_S = 0.12  # a little more than a tick: what is left of a bucket is given out in the last few of them
# Empty is a bucket that holds no more than so many seconds of the baseline's service, or this share of itself.
_EMPTY_S, _EMPTY_SHARE = 0.02, 0.001
# It stays so until this has come together: else every slip of the throttle below the baseline would be a burst. Slips
# are made up for over a longer time.
_RECOVERED_S, _RECOVERED_SHARE = 1.0, 0.1
_MADE_UP_S = 10.0
_MOST_OWED_S = 1.0


class BurstLimit:
    """One limit of one owner. ``limit`` is what may be served now, per second; infinity where there is none.

    Without a ``rule`` it is ``plain`` for good. ``time_compression`` makes credits go and come that many times
    faster. Times are seconds of a monotonic clock; credits are accounted up to ``as_of``.
    """

    def __init__(
        self, plain: float, rule: CreditRule | None, now: float, time_compression: float = 1.0
    ) -> None:
        self.bucket = rule.bucket() if rule else None
        self.limit = plain
        self.spent = False
        self._plain = plain
        self._owed = 0.0
        self._as_of = now
        self._compression = time_compression
        self._settle()

    def take(self, amount: float, elapsed_s: float, now: float, *, pressed: bool = False) -> None:
        """Account for what was served in the ``elapsed_s`` before ``now``; whatever lies before was idle.

        ``pressed``: the load wanted more than it got.
        """
        if self.bucket is None:
            return
        self.rest_until(now - elapsed_s)
        self._advance(amount / elapsed_s, elapsed_s, held_back=pressed and self.spent)
        self._as_of = now
        self._settle()

    def rest_until(self, now: float) -> None:
        """Account for idle time up to ``now``."""
        if self.bucket is not None and now > self._as_of:
            self._advance(0.0, now - self._as_of, held_back=False)
            self._as_of = now
            self._settle()

    def percent(self, now: float) -> float | None:
        """The balance in percent of the bucket; None where there is none. Asking does not account for anything."""
        if self.bucket is None:
            return None
        idle_s = max(0.0, now - self._as_of)
        return 100 * self.bucket.advance(0.0, idle_s, self._compression).share

    def change(self, plain: float, rule: CreditRule | None, now: float) -> None:
        """Go by other figures from now on; the balance stays, as far as the new bucket holds it."""
        self.rest_until(now)
        before, self._plain = self.bucket, plain
        self.bucket = rule.bucket() if rule else None
        if before is not None and self.bucket is not None:
            self.bucket = replace(self.bucket, level=min(before.level, self.bucket.capacity))
        self._owed, self.spent, self._as_of = 0.0, False, now
        self._settle()

    def _advance(self, rate: float, seconds: float, *, held_back: bool) -> None:
        before = self.bucket
        assert before is not None
        after = before.advance(rate, seconds, self._compression, held_back=held_back)
        drained = (rate - before.refill) * seconds * self._compression
        if drained > before.level:
            most = _MOST_OWED_S * before.refill * self._compression
            self._owed = min(self._owed + drained - before.level, most)
        elif self._owed > 0 and after.level > before.level:
            paid = min(self._owed, after.level - before.level)
            self._owed -= paid
            after = replace(after, level=after.level - paid)
        self.bucket = after

    def _settle(self) -> None:
        bucket = self.bucket
        if bucket is None:
            self.limit = self._plain
            return
        second = bucket.refill * self._compression
        if bucket.level <= min(_EMPTY_S * second, _EMPTY_SHARE * bucket.capacity):
            self.spent = True
        elif bucket.level >= min(_RECOVERED_S * second, _RECOVERED_SHARE * bucket.capacity):
            self.spent = False
        if self.spent:
            made_up = (bucket.level - self._owed) / (_MADE_UP_S * self._compression)
            self.limit = min(bucket.refill + made_up, bucket.spend)
        else:
            self.limit = bucket.allowed(_LAST_S, self._compression)

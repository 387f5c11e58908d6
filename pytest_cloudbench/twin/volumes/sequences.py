"""Counting I/Os as EBS does: up to a unit of bytes is one I/O, larger ones are split, sequential small ones merge.

Each I/O is remembered by its end. An I/O that begins there continues it and fills the same unit. On a small file
random I/O sometimes continues another one. Therefore the first two continuations in a row count as separate I/Os, and
the third one corrects their count. AWS does not publish whether EBS merges in such cases.
"""

from __future__ import annotations

FOLLOWS_WITHIN_S = 1.0
"""An I/O that follows its predecessor later than this begins a new unit."""
_BELIEVED = 3
_CONTINUED = 4
# A predecessor must be among the last _NEAR_IOS; in a confirmed sequence, beside many others, among _FAR_IOS.
_NEAR_IOS, _FAR_IOS = 256, 4096
# On a small area read at random, neighbours often follow each other by chance. So a predecessor must be this many
# times more recent than the last I/O at the same place.
_MORE_RECENT = 16

_Ended = tuple[float, int, int, int, int]  # time, filled bytes, number, continuations, surplus I/Os counted


class Sequences:
    """The streams of one volume. ``unit`` is in bytes. Without ``merging`` every I/O counts by itself."""

    def __init__(self, unit: int, *, merging: bool = True) -> None:
        self._unit = unit
        self._merging = merging
        self.continued = False
        """True if the last I/O continues another one, even as the first or second in a row."""
        self._number = 0
        # When _recent is full, it replaces _older.
        self._recent: dict[int, _Ended] = {}
        self._older: dict[int, _Ended] = {}

    def count(self, now: float, offset: int, size: int, write: bool) -> int:
        """Return how many I/Os this one adds; negative if earlier ones are now known to be one."""
        unit = self._unit
        if not self._merging:
            return -(-size // unit)
        self._number += 1
        begin, end = offset * 2 + write, (offset + size) * 2 + write
        before = self._recent.get(begin) or self._older.get(begin)
        self.continued = before is not None and self._continues(before, now, end)
        if before is None or not self.continued:
            ios = -(-size // unit)
            entry = (now, size - (ios - 1) * unit, self._number, 0, 0)
        else:
            then, filled, number, sequels, too_many = before
            self._recent[begin] = (then, filled, number, _CONTINUED, too_many)
            together = -(-(filled + size) // unit) - 1
            filled += size - together * unit
            sequels = min(sequels + 1, _BELIEVED)
            if sequels == _BELIEVED:
                ios, too_many = together - too_many, 0
            else:
                ios = -(-size // unit)
                too_many += ios - together
            entry = (now, filled, self._number, sequels, too_many)
        self._recent[end] = entry
        if len(self._recent) > _FAR_IOS:
            self._older, self._recent = self._recent, {}
        return ios

    def _continues(self, before: _Ended, now: float, end: int) -> bool:
        then, _, number, sequels, _ = before
        ago = self._number - number
        if sequels == _CONTINUED or now - then >= FOLLOWS_WITHIN_S:
            return False
        if ago > (_FAR_IOS if sequels == _BELIEVED else _NEAR_IOS):
            return False
        same = self._recent.get(end) or self._older.get(end)
        return same is None or ago * _MORE_RECENT <= self._number - same[2]

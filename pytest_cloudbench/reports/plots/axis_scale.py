"""One axis of a panel: from where to where it goes, plainly or logarithmically, and which values it names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_SLACK = 1e-9


@dataclass(frozen=True)
class AxisScale:
    """A range of values. A logarithmic one has to lie above zero."""

    low: float
    high: float
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Where a value lies on the axis, 0 at its beginning and 1 at its end."""
        if not self.logarithmic:
            return (value - self.low) / (self.high - self.low)
        lowest = math.log(self.low)
        return (math.log(max(value, self.low * _SLACK)) - lowest) / (math.log(self.high) - lowest)

    def ticks(self, most: int = 9) -> list[float]:
        """Round values within the range, at most so many; a logarithmic axis has those at 1, 2 and 5 of each ten."""
        return self._powers() if self.logarithmic else self._rounds(most)

    def _rounds(self, most: int) -> list[float]:
        smallest = (self.high - self.low) / max(most, 1)
        ten = 10.0 ** math.floor(math.log10(smallest))
        step = next(ten * each for each in (*_STEPS, 20.0) if ten * each >= smallest * (1 - _SLACK))
        first, last = math.ceil(self.low / step - _SLACK), math.floor(self.high / step + _SLACK)
        return [number * step for number in range(first, last + 1)]

    def _powers(self) -> list[float]:
        ratio = self.high / self.low
        multiples: Sequence[float] = (1, 2, 5) if ratio < 200 else (1, 3) if ratio < 5_000 else (1,)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = [each * 10.0**power for power in powers for each in multiples]
        return [value for value in values if self.low <= value <= self.high]


def tick_text(value: float) -> str:
    """A value beside an axis: "80,000", "0.25"."""
    return f"{value:,.10g}"

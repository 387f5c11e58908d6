"""Where a sweep stands."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Iops, figure
from pytest_cloudbench.verdicts.wording import duration


@dataclass(frozen=True)
class SweepProgress:
    """Which run of how many it is at, what that asks for, what the last second gave, and the time left at most.

    ``percent`` and ``asked`` are None while the maximum is looked for.
    """

    number: int
    of: int
    percent: float | None
    asked: Iops | None
    iops: float
    latency_s: float | None
    left_s: float

    def __str__(self) -> str:
        what = "maximum" if self.asked is None else f"{figure(self.percent or 0)} % = {self.asked}"
        at = f" at {duration(self.latency_s)}" if self.latency_s is not None else ""
        return f"{self.number} of {self.of}, {what}: {self.iops:,.0f} IOPS{at}, {self.left_s:.0f} s left"

"""A run's series as judges use it: its samples in one quantity, and the plateaus between its falls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import fmean, median

from pytest_cloudbench.limits.quantities import Iops, Rate
from pytest_cloudbench.verdicts.change_point import Fall, Falls, find_falls
from pytest_cloudbench.verdicts.observation import RateSeries

SHORT_INTERVAL = 0.9
_ON_THE_WAY = 2


@dataclass(frozen=True)
class Plateau:
    """The samples between two falls: from ``begin_s`` to ``end_s`` of the run, without the falls' own samples.

    ``first`` and ``last`` are True if it begins or ends with the run.
    """

    begin_s: float
    end_s: float
    values: tuple[float, ...]
    first: bool
    last: bool

    @property
    def mean(self) -> float:
        """The mean of its samples, in I/Os or bytes per second."""
        return fmean(self.values)


@dataclass(frozen=True)
class Timeline:
    """The full samples of a run, each with the end of its interval in seconds of the test."""

    seconds: tuple[float, ...]
    values: tuple[float, ...]
    like: Rate
    time_compression: float = 1.0

    def rate(self, value: float) -> Rate:
        """Return a plain figure as a rate of this run."""
        return type(self.like)(value)

    @property
    def compressed_text(self) -> str:
        """A remark for the end of a sentence if time was compressed; else ""."""
        return "" if self.time_compression == 1 else f"; time compressed {self.time_compression:g} times"

    @property
    def length_s(self) -> float:
        """How long the samples last, in seconds of the test."""
        return self.seconds[-1] - self.seconds[0] + self.interval_s if self.seconds else 0.0

    @cached_property
    def interval_s(self) -> float:
        """How long one sample usually lasts, in seconds of the test."""
        gaps = [after - before for before, after in pairwise(self.seconds)]
        return median(gaps) if gaps else (self.seconds[0] if self.seconds else 0.0)

    @cached_property
    def falls(self) -> Falls:
        """Its lasting falls."""
        return find_falls(self.seconds, self.values)

    @cached_property
    def plateaus(self) -> tuple[Plateau, ...]:
        """Its plateaus in the order of time; one if nothing fell, none without samples."""
        if not self.values:
            return ()
        falls: list[Fall] = list(self.falls.lasting)
        if self.falls.unproven is not None:
            falls = sorted([*falls, self.falls.unproven], key=lambda fall: fall.index)
        starts = [0, *(fall.index + _ON_THE_WAY for fall in falls)]
        ends = [*(fall.index - _ON_THE_WAY for fall in falls), len(self.values)]
        moments = [self.seconds[0] - self.interval_s, *(fall.at_s for fall in falls), self.seconds[-1]]
        last = len(falls)
        return tuple(
            Plateau(moments[number], moments[number + 1], self.values[start:end], number == 0, number == last)
            for number, (start, end) in enumerate(zip(starts, ends, strict=True))
        )

    def before(self, fall: Fall) -> Plateau:
        values = self.values[: fall.index - _ON_THE_WAY]
        return Plateau(self.seconds[0] - self.interval_s, fall.at_s, values, first=True, last=False)

    def after(self, fall: Fall) -> Plateau:
        values = self.values[fall.index + _ON_THE_WAY :]
        return Plateau(fall.at_s, self.seconds[-1], values, first=False, last=True)

    def end_of_burst(self, is_spent: Callable[[Rate], bool]) -> Fall | None:
        """Return the fall that ended a burst: the first lasting one to a level that remains once credits are spent.

        None if nothing fell for good, or if the level after the last lasting fall is not such a level: then the run
        does not show the end of credits.
        """
        falls = self.falls.lasting
        if not falls or not is_spent(self.rate(falls[-1].after)):
            return None
        return next(fall for fall in falls if is_spent(self.rate(fall.after)))

    def of_real_seconds(self, values: Sequence[float]) -> list[float]:
        """Return ``values``, samples of this run; those shorter than a second of the clock are combined to seconds.

        Under compressed time a sample lasts a tenth of a second, in which few blocks of data arrive: their number
        depends more on the sender's blocks than on the network's rate.
        """
        real_s = self.interval_s / self.time_compression
        together = round(1 / real_s) if 0 < real_s < 1 else 1
        if together == 1:
            return list(values)
        full = len(values) - len(values) % together
        return [fmean(values[at : at + together]) for at in range(0, full, together)]


def timed_samples(series: RateSeries | None, like: Rate) -> tuple[list[float], list[float]]:
    """Return the end of each full interval, in seconds, and its sample as a plain figure in the quantity of ``like``.

    A last interval that is shorter than the others is left out, and so are samples without a figure.
    """
    if series is None:
        return [], []
    if isinstance(like, Iops):
        values = [rate.per_second for rate in getattr(series, "iops", ())]
    else:
        values = [rate.bytes_per_second for rate in series.throughput]
    seconds = list(series.seconds)[: len(values)]
    gaps = [after - before for before, after in pairwise(seconds)]
    if len(gaps) >= 2 and gaps[-1] < SHORT_INTERVAL * median(gaps[:-1]):
        values = values[: len(seconds) - 1]
    kept = [(at, value) for at, value in zip(seconds, values, strict=False) if math.isfinite(value)]
    return [at for at, _ in kept], [value for _, value in kept]

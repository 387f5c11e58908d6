"""The plan of a sweep: mix, threads, steps, times and working set, checked before anything starts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.durations import parse_duration
from pytest_cloudbench.limits.quantities import Size, figure
from pytest_cloudbench.verdicts.wording import duration
from pytest_cloudbench.workloads.pace import Pace
from pytest_cloudbench.workloads.space import KEPT_FREE
from pytest_cloudbench.workloads.sweep.errors import BadSweep
from pytest_cloudbench.workloads.sweep.mixes import Mix

DEFAULT_WORKING_SET = "12%"
"""The share of each device used in the published i3.metal review, which a scenario repeats."""
_PLACES = 8
"""The least number of blocks per I/O in flight, so that I/Os do not collide on the same blocks."""
_GRAIN = 1 << 20
_WRITTEN = Size(1 << 30)
"""The total size that a sweep writes to if a machine behind the devices stores their data."""
TIMES = ("step_time", "maximum_time", "ramp_time")
"""The time options of the ``sweep`` fixture."""
STEPS = tuple(range(10, 130, 10))
"""Per cent of the maximum, as in the published review."""
LOWEST, HIGHEST = 1, 200
QUICK_STEP_S = 2
QUICK_STEP_RAMP_S = 1
QUICK_MAXIMUM_S = 6
QUICK_FULL_RAMP_S = 2
"""A load at its limit needs about this long from its start until throttling is steady."""
TICK_S = 1.0
"""The interval of fio's running totals, by which a run is measured."""
START_STOP_S = 0.8
"""About the time to start and end fio on many devices; only used to estimate the remaining time."""
_MOST_THREADS = 65_536
_CLOSE = 90
_EVERY = 4


@dataclass(frozen=True)
class WorkingSet:
    """The part of each device that a sweep uses: a share in per cent, or a size."""

    percent: float | None = None
    size: Size | None = None

    @classmethod
    def of(cls, given: object) -> WorkingSet:
        """Parse "12%", "20g" or a Size. Raises BadSweep for anything else."""
        text = str(given).strip()
        if text.endswith("%"):
            try:
                percent = float(text[:-1])
            except ValueError:
                percent = math.nan
            if not 0 < percent <= 100:
                raise BadSweep(f"invalid working_set={given!r}: use a share above 0 % and up to 100 %")
            return cls(percent=percent)
        try:
            return cls(size=Size.parse(given))  # type: ignore[arg-type]  # another type raises
        except (ValueError, TypeError):
            raise BadSweep(
                f"invalid working_set={given!r}: use a share such as '12%' or a size such as '20g'"
            ) from None

    def on(self, device: Size, mix: Mix, threads: int) -> Size:
        """Return the working set's size on a device, in whole MiB.

        Raises BadSweep if it exceeds the device, or is too small for that many I/Os in flight.
        """
        requested = (
            device.bytes * self.percent / 100 if self.percent is not None else (self.size or Size(0)).bytes
        )
        if requested > device.bytes:
            raise BadSweep(f"working_set={self} exceeds the device, which has {device}")
        found = Size(int(requested) // _GRAIN * _GRAIN)
        least = threads * mix.largest_block.bytes * _PLACES
        if found.bytes < max(least, _GRAIN):
            raise BadSweep(
                f"a working set of {self} on a device of {device} is {found}, too small for {threads} threads of mix "
                f"{mix.name}: {_PLACES} blocks of {mix.largest_block} for each need {Size(max(least, _GRAIN))}; use "
                "larger volumes, a larger working_set= or fewer threads"
            )
        return found

    def __str__(self) -> str:
        return f"{figure(self.percent)} %" if self.percent is not None else str(self.size)


def within_room(sets: Sequence[Size], room: Size | None, mix: Mix, threads: int) -> Size | None:
    """Return the reduced working set of a writing sweep if a machine behind the devices stores their data.

    None if nothing must be reduced. Such a machine allocates space for each block on its first write, which takes
    longer than the measured I/O, so the sweep writes repeatedly to few blocks. Raises BadSweep if the machine has too
    little room for the I/Os in flight.
    """
    if room is None or not mix.writes:
        return None
    least = max(_GRAIN, -(-threads * mix.largest_block.bytes * _PLACES // _GRAIN) * _GRAIN)
    if least * len(sets) > room.bytes * (1 - KEPT_FREE):
        raise BadSweep(
            f"mix {mix.name} writes, but the machine behind the devices has room for only {room}: give the embedded "
            "region a folder with --cloudbench-twin-backing=DIR"
        )
    share = Size(max(least, _WRITTEN.bytes // len(sets) // _GRAIN * _GRAIN))
    return share if any(share < each for each in sets) else None


@dataclass(frozen=True)
class StepTimes:
    """The times of a step in seconds: an unmeasured ramp, then at most ``runtime_s``.

    A step ends once it is steady, at the earliest after ``steady_after_s``; None always uses the whole time.
    """

    ramp_s: int
    runtime_s: int
    steady_after_s: int | None

    @property
    def length_s(self) -> int:
        """The longest time, ramp included."""
        return self.ramp_s + self.runtime_s


@dataclass(frozen=True)
class SweepPlan:
    """A checked sweep. ``threads`` I/Os are kept in flight on each device; steps are per cent of the maximum.

    ``overwrite``: a mix that writes may destroy what the devices carry.
    """

    mix: Mix
    threads: int
    steps: tuple[float, ...]
    maximum: StepTimes
    step: StepTimes
    working_set: WorkingSet
    latency_limit_s: float | None = None
    overwrite: bool = False

    @classmethod
    def of(
        cls,
        mix: Mix,
        *,
        threads: int = 32,
        steps: Iterable[float] = STEPS,
        step_time: int = 60,
        maximum_time: int = 60,
        ramp_time: int = 5,
        latency_limit: str | None = None,
        working_set: object = DEFAULT_WORKING_SET,
        overwrite: bool = False,
    ) -> SweepPlan:
        """Build a plan from the options of the ``sweep`` fixture. Times in seconds; ``latency_limit`` is text ("20ms").

        Raises BadSweep with the option, its value and the accepted values.
        """
        _check_whole("threads", threads, 1, _MOST_THREADS)
        _check_whole("step_time", step_time, 2, 86_400)
        _check_whole("maximum_time", maximum_time, 2, 86_400)
        _check_whole("ramp_time", ramp_time, 0, 3_600)
        try:
            limit_s = None if latency_limit is None else parse_duration(latency_limit)
        except (ValueError, TypeError) as error:
            raise BadSweep(f"invalid latency_limit={latency_limit!r}: {error}") from None
        return cls(
            mix,
            threads,
            _checked_steps(steps),
            StepTimes(ramp_time, maximum_time, min(30, maximum_time)),
            StepTimes(ramp_time, step_time, min(10, step_time)),
            WorkingSet.of(working_set),
            limit_s,
            overwrite,
        )

    def paced(self, pace: Pace) -> tuple[SweepPlan, tuple[str, ...]]:
        """Return the plan as this pace runs it, and a condition for each change."""
        if pace is Pace.FULL:
            return self, ()
        conditions = []
        kept = _thinned(self.steps)
        if kept != self.steps:
            conditions.append(f"quick pace: steps {_listed(self.steps)} % -> {_listed(kept)} %")
        step, changes = _quick("step", self.step, QUICK_STEP_RAMP_S, QUICK_STEP_S)
        conditions += changes
        maximum, changes = _quick("maximum", self.maximum, QUICK_FULL_RAMP_S, QUICK_MAXIMUM_S)
        conditions += changes
        return dataclasses.replace(self, steps=kept, step=step, maximum=maximum), tuple(conditions)

    def times_of(self, percent: float | None) -> StepTimes:
        """Return the times of a step, or of the maximum (None). A step at the limit has the maximum's ramp."""
        if percent is None:
            return self.maximum
        if percent < 100:
            return self.step
        return dataclasses.replace(self.step, ramp_s=max(self.step.ramp_s, self.maximum.ramp_s))

    def length_s(self, begun: int = 0) -> float:
        """Return the longest remaining time in seconds once ``begun`` runs (the maximum, then steps) have begun."""
        runs: list[float | None] = [None, *self.steps]
        return sum(self.times_of(percent).length_s + START_STOP_S for percent in runs[begun:])

    def __str__(self) -> str:
        limit = f", up to {duration(self.latency_limit_s)}" if self.latency_limit_s is not None else ""
        return f"{self.mix.name}, {self.threads} threads, {len(self.steps)} steps{limit}"


def _quick(what: str, times: StepTimes, ramp_s: int, runtime_s: int) -> tuple[StepTimes, list[str]]:
    paced = StepTimes(min(times.ramp_s, ramp_s), min(times.runtime_s, runtime_s), None)
    if (paced.ramp_s, paced.runtime_s) == (times.ramp_s, times.runtime_s):
        return paced, []
    before, after = (f"{each.ramp_s} + {each.runtime_s} s" for each in (times, paced))
    return paced, [f"quick pace: {what} {before} -> {after}"]


def _thinned(steps: tuple[float, ...]) -> tuple[float, ...]:
    """Keep the steps near the maximum, every fourth of those well below it, and the last one above it."""
    low = [step for step in steps if step < _CLOSE]
    near = [step for step in steps if _CLOSE <= step <= 100]
    beyond = [step for step in steps if step > 100]
    return (*(low[::_EVERY] if len(low) > _EVERY else low), *near, *beyond[-1:])


def _checked_steps(steps: Iterable[float]) -> tuple[float, ...]:
    if isinstance(steps, (str, bytes)) or not isinstance(steps, Iterable):
        raise BadSweep(
            f"invalid steps={steps!r}: use numbers of per cent of the maximum, such as range(10, 130, 10)"
        )
    found = tuple(steps)
    if not found:
        raise BadSweep("steps is empty: use per cent of the maximum, such as range(10, 130, 10)")
    for step in found:
        number = isinstance(step, (int, float)) and not isinstance(step, bool) and math.isfinite(step)
        if not number or not LOWEST <= step <= HIGHEST:
            raise BadSweep(f"invalid step {step!r}: use {LOWEST} to {HIGHEST} per cent of the maximum")
    if len(set(found)) != len(found):
        raise BadSweep(f"steps={_listed(found)} contains a step twice: give each once")
    return tuple(sorted(found))


def _listed(steps: Iterable[float]) -> str:
    return ", ".join(figure(step) for step in steps)


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadSweep(f"invalid {name}={value!r}: use a whole number from {least:,} to {most:,}")

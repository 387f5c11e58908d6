"""A run on storage as judges see it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import Envelope, Level
from pytest_cloudbench.limits.quantities import MIB, Iops, Rate, Throughput, figure
from pytest_cloudbench.verdicts.change_point import falls_details
from pytest_cloudbench.verdicts.counters import ACTED_SHARE, ThrottleDelta
from pytest_cloudbench.verdicts.damage import damage_of
from pytest_cloudbench.verdicts.observation import GeneratorLoad, Observation
from pytest_cloudbench.verdicts.run_view import (
    ABOVE,
    FAR_ABOVE,
    NEAR,
    Bound,
    Goal,
    Rates,
    Run,
    Samples,
    most_far_above,
)
from pytest_cloudbench.verdicts.targets import ratio
from pytest_cloudbench.verdicts.timeline import Plateau, Timeline
from pytest_cloudbench.verdicts.verdict import Doubt, Evidence
from pytest_cloudbench.verdicts.wording import Named, listed, named, percent

_WHAT_ELSE = "look for a cache, burst credits or the wrong device"


@dataclass(frozen=True, kw_only=True)
class StorageRun(Run):
    """A run on storage, reads and writes together. The latency of a part is unknown (NaN).

    With ``by_bytes`` its rate is the throughput: the kernel decided how many I/Os carried the data.
    """

    kind = "storage"
    needs_longer = "lengthen runtime"
    lift_limit = "ask for more than the ceiling, or lift the limit"
    nothing = "no I/O completed"
    falls_explain = False
    workers = "job", "jobs"

    iops: float
    throughput_mib: float
    sequential: bool
    counters: ThrottleDelta | None
    by_bytes: bool = False

    @classmethod
    def of(cls, obs: Observation) -> StorageRun:
        """Return the view of a measurement; an attribute that it lacks is unknown."""
        means: dict[str, Rate] = {
            "iops": Iops(obs.iops),
            "throughput": Throughput.from_mib(obs.throughput_mib),
        }
        damage = damage_of(obs, means)
        latency, own = obs.latency_mean_s, getattr(obs, "rate_asked", None)
        return cls(
            iops=obs.iops,
            throughput_mib=obs.throughput_mib,
            block_size=obs.block_size,
            sequential=obs.sequential,
            series=None if damage.text else obs.series,
            damage=damage.text,
            damage_of_totals=damage.of_totals,
            envelope=obs.envelope or Envelope((), obs.block_size, obs.sequential),
            counters=obs.counters,
            generator=getattr(obs, "generator", None),
            outstanding_asked=obs.outstanding_asked,
            latency_mean_s=latency if isinstance(latency, (int, float)) else math.nan,
            latency_max_s=getattr(getattr(obs, "latency", None), "max_s", None) or 0.0,
            runtime_s=obs.runtime_s,
            time_compression=float(getattr(obs, "time_compression", None) or 1.0),
            conditions=tuple(str(one) for one in getattr(obs, "conditions", ())),
            asked=getattr(obs, "asked", None) or {},
            machine_delay=getattr(obs, "machine_delay", None),
            idle_at_start_s=getattr(obs, "idle_at_start_s", 0.0),
            job_limit=own if isinstance(own, (Iops, Throughput)) else None,
            keeps_outstanding=getattr(obs, "keeps_outstanding", None),
            carried_with_as_many=getattr(obs, "carried_with_as_many", None),
            more_load_by=getattr(obs, "more_load_by", "iodepth or numjobs"),
            modelled_latency=getattr(obs, "modelled_latency", None),
            share_of_others=getattr(obs, "share_of_others", None),
            reads_nothing=getattr(obs, "reads_nothing", ""),
            by_bytes=getattr(obs, "ios_merge", False),
        )

    # Rates and series

    @property
    def rate(self) -> Rate:
        return self.rates.throughput if self.by_bytes else Iops(self.iops)

    @property
    def rates(self) -> Rates:
        return Rates(Iops(self.iops), Throughput.from_mib(self.throughput_mib))

    def rate_like(self, like: Rate) -> Rate:
        return self.rates.like(like)

    def samples(self, like: Rate) -> Sequence[float]:
        return self.timeline(like).values

    def part(self, line: Timeline, kept: Plateau, where: str) -> StorageRun | None:
        """Return the part of this run that is one plateau of ``line``; None if it holds no sample.

        Its throttle counters hold only what is certain (`ThrottleDelta.during`), its latency is unknown, and the
        generator's CPU use is taken to be proportional to the rate, but never below that of the whole run.
        """
        series = self._samples_of(kept, line.interval_s)
        if series is None:
            return None
        length_s = kept.end_s - kept.begin_s
        iops = fmean(rate.per_second for rate in series.iops)
        counters = self.counters
        return replace(
            self,
            series=series,
            iops=iops,
            throughput_mib=fmean(rate.bytes_per_second for rate in series.throughput) / MIB,
            runtime_s=length_s,
            latency_mean_s=math.nan,
            counters=counters.during(length_s / self.time_compression) if counters is not None else None,
            generator=_busier(self.generator, iops / self.iops if self.iops > 0 else 1.0),
            where=where,
            part_details={
                **falls_details(line.falls),
                "judged_from_s": kept.begin_s,
                "judged_to_s": kept.end_s,
            },
        )

    def for_samples(self, values: Sequence[float], mean: Rate) -> StorageRun:
        """Return what is known of these samples; throttle counters hold only what is certain for this many samples."""
        samples, counters = len(self.samples(mean)), self.counters
        if not samples:
            return self
        share = min(1.0, len(values) / samples)
        return replace(
            self,
            latency_mean_s=self.latency_mean_s if share >= 1 else math.nan,
            counters=counters.during(share * counters.elapsed_s) if counters is not None else None,
        )

    def _samples_of(self, kept: Plateau, interval_s: float) -> Samples | None:
        """Return the samples that lie wholly within a plateau, without those of the fall itself."""
        series: Any = self.series
        begin = kept.begin_s if kept.first else kept.begin_s + interval_s
        end = kept.end_s if kept.last else kept.end_s - interval_s
        rows = [
            row
            for row in zip(series.seconds, series.throughput, series.iops, strict=False)
            if begin <= row[0] - interval_s * 0.99 and row[0] <= end + interval_s * 0.01
        ]
        return Samples(*map(tuple, zip(*rows, strict=True))) if rows else None

    # Limits

    def known(self, ceiling: Ceiling) -> Ceiling:
        """Return the ceiling with the envelope's own figures if it has them."""
        return self.envelope.find(ceiling) or ceiling

    def asked_of(self, target: Ceiling | Rate) -> Rate:
        """Return a target in I/Os of this run's size: a large I/O counts as several against an IOPS ceiling."""
        if not isinstance(target, Ceiling):
            return target
        known = self.known(target)
        return self.envelope.unmerged_iops_of(known) if known.of_iops and known.promised else known.limit

    def goal(self, target: object) -> Goal:
        found = self.parse_target(target, "reaches")
        asked = self.asked_of(found)
        return Goal(asked, found.label, (self.known(found),)) if isinstance(found, Ceiling) else Goal(asked)

    def remark(self, goal: Goal, measured: Rate, within: float) -> str:
        above = self._above_limits()
        return f"; but {above[1]}: {_WHAT_ELSE}" if above is not None else ""

    def beyond_limits(self) -> Doubt | None:
        above = self._above_limits()
        if above is not None and above[0] > ABOVE:
            return Doubt(f"{self.rate} is {above[1]}, which no limit yields: {_WHAT_ELSE}")
        if (limit := self.envelope.promised.limit_iops) is None:
            return None
        samples = self.samples(limit)
        far = sum(value > limit.per_second * (1 + FAR_ABOVE) for value in samples)
        if far <= most_far_above(len(samples)):
            return None
        return Doubt(
            f"{percent(far / len(samples))} of the seconds lie more than {percent(FAR_ABOVE)} above every limit, up to "
            f"{Iops(max(samples))}, which no limit yields: {_WHAT_ELSE}"
        )

    def _above_limits(self) -> tuple[float, str] | None:
        """Return the share by which the rate exceeds the lowest limit, also in words; None if it is at most `NEAR`."""
        if not self.envelope.promised.ceilings:
            return None
        lowest = self.envelope.promised.ordered[0]
        limit = self.envelope.levels_of(lowest)[0].like(lowest.limit)
        above = ratio(self.rate_like(lowest.limit), limit) - 1
        return (above, f"{percent(above)} above {lowest.label}, {limit}") if above > NEAR else None

    def may_burst(self, ceilings: Sequence[Ceiling]) -> bool:
        return any(ceiling.base is not None for ceiling in ceilings)

    def nearest_level(self, ceiling: Ceiling, rates: Rates) -> tuple[Level, float]:
        """Return the level of a ceiling that is nearest to a rate, and their distance as a share of the level.

        Each ceiling is compared in its own quantity, so that mixed block sizes do not blur it.
        """
        seen = rates.like(ceiling.limit)

        def distance(level: Level) -> float:
            return abs(ratio(seen, level.like(ceiling.limit)) - 1)

        level = min(self.envelope.levels_of(ceiling), key=distance)
        return level, distance(level)

    def bounds(self, rate: Rates, *, but: Sequence[Bound] = ()) -> tuple[Bound, ...]:
        """Return the promised ceilings that explain a rate.

        Those with a level near the rate, unless their counters deny it; if counters confirm some of them, only these.
        If there are none, those whose counters alone say that they acted.
        """
        at_level, by_counters = [], []
        for ceiling in self.envelope.promised.ordered:
            if any(ceiling.same_as(other.ceiling) for other in but):
                continue
            said = self.acted(ceiling)
            level, distance = self.nearest_level(ceiling, rate)
            if distance <= NEAR and said is not False:
                at_level.append(Bound(ceiling, level, said))
            elif said:
                by_counters.append(Bound(ceiling, None, said))
        confirmed = [bound for bound in at_level if bound.acted]
        return tuple(confirmed or at_level or by_counters)

    def nearest_bounds(self, rate: Rates) -> tuple[Bound, ...]:
        return tuple(
            Bound(ceiling, self.nearest_level(ceiling, rate)[0], self.acted(ceiling))
            for ceiling in self.envelope.promised.ordered
        )

    def counted_evidence(self, ceiling: Ceiling) -> tuple[Evidence, ...]:
        seconds = self.counters.seconds_of(ceiling) if self.counters is not None else None
        if self.counters is None or seconds is None:
            return ()
        return (Evidence("time above the limit", seconds, ACTED_SHARE * self.counters.elapsed_s, "s"),)

    def labels(self, found: Sequence[Bound]) -> str:
        return listed(bound.ceiling.label for bound in found)

    def bound_text(self, found: Sequence[Bound]) -> str:
        names = []
        for bound in found:
            remark = ""
            if bound.level is None and self.counters is not None:
                remark = f"exceeded for {self.exceeded_text([bound.ceiling])} by its throttle counter"
            names.append(Named(bound.ceiling, bound.level, remark))
        return f"limited by {named(names, self.block_size)}"

    def acted(self, ceiling: Ceiling) -> bool | None:
        return self.counters.acted(ceiling) if self.counters is not None else None

    def exceeded_text(self, ceilings: Sequence[Ceiling]) -> str:
        """Return the longest time for which one of them was exceeded, against the run's: "285 of 300 s"."""
        assert self.counters is not None
        seconds = max(self.counters.seconds_of(ceiling) or 0.0 for ceiling in ceilings)
        return f"{figure(seconds, 1)} of {figure(self.counters.elapsed_s, 1)} s"

    def ends_a_burst(self, rate: Rate, ceilings: Sequence[Ceiling]) -> bool:
        rates = self.rates_of(rate)
        spent = [
            level.like(ceiling.limit)
            for ceiling in (*self.envelope.promised.ceilings, *ceilings)
            for level in self.envelope.levels_of(ceiling)
            if level.burst_spent
        ]
        return any(abs(ratio(rates.like(level), level) - 1) <= NEAR for level in spent)

    def unexplained(self) -> str:
        if not self.envelope.promised.ceilings:
            return "its ceilings are not known, so none explains it"
        if self.counters is None:
            return "no known ceiling explains it, and there are no throttle counters"
        return "no known ceiling explains it, and no throttle counter saw one act"

    # Sentences and details

    def own_details(self) -> dict[str, Any]:
        known = math.isfinite(self.latency_mean_s)
        return {
            "block_size_bytes": self.block_size.bytes,
            "sequential": self.sequential,
            "outstanding_asked": self.outstanding_asked,
            "outstanding_mean": self.iops * self.latency_mean_s if known else None,
            "machine_delay": asdict(self.machine_delay) if self.machine_delay is not None else None,
        }


def _busier(load: GeneratorLoad | None, times: float) -> GeneratorLoad | None:
    """Return a generator's load while its rate was ``times`` that of the whole run."""
    if load is None or times <= 1:
        return load
    total, cpus = load.cpu_percent_total, load.cpus
    if total is not None and cpus:
        total = max(total, min(total * times, 100.0 * cpus))
    busiest = max(load.cpu_percent_busiest, min(load.cpu_percent_busiest * times, 100.0))
    return GeneratorLoad(busiest, total, cpus)

"""What every judge sees of a run: its rates, ceilings, series, generator and counters, on storage or over a network.

`Run` holds what storage and networks share. `StorageRun` and `NetworkRun` add what only one of them has. For data of
the other kind they have neutral values (no headers, no streams, no outstanding I/O), so a judge need not check the
kind.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import Envelope, Level
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Rate, Size, Throughput, figure, plain
from pytest_cloudbench.verdicts.observation import GeneratorLoad, MachineDelay, RateSeries
from pytest_cloudbench.verdicts.targets import as_rate_or_ceiling
from pytest_cloudbench.verdicts.timeline import Plateau, Timeline, timed_samples
from pytest_cloudbench.verdicts.verdict import Doubt, Evidence

if TYPE_CHECKING:
    from typing_extensions import Self

NEAR = 0.05
"""A rate within this share of a limit counts as lying at it."""
ABOVE = 0.10
"""A limit does not yield this much more than itself over a run: something else served it."""
FAR_ABOVE = 0.25
"""A limit does not yield this much more than itself for a second; a full bucket yields so much only once."""
SATURATED_PERCENT = 95.0
"""A load generator that uses at least this much of a CPU counts as the limit."""


@dataclass(frozen=True)
class Rates:
    """One rate in both quantities: I/Os and bytes per second."""

    iops: Iops
    throughput: Throughput

    def like(self, rate: Rate) -> Rate:
        """Return the rate in the quantity of ``rate``."""
        return self.iops if isinstance(rate, Iops) else self.throughput


@dataclass(frozen=True)
class Samples:
    """The series of a part of a run; ``iops`` is empty for a network."""

    seconds: Sequence[float]
    throughput: Sequence[Throughput]
    iops: Sequence[Iops] = ()


@dataclass(frozen=True)
class Bound:
    """A ceiling that explains a rate.

    ``level`` is where the rate lies (None if only its counters show that the ceiling acted), ``acted`` what the
    counters say: True, False, or None if unknown.
    """

    ceiling: Ceiling
    level: Level | None
    acted: bool | None


@dataclass(frozen=True)
class Goal:
    """What `reaches` requires of a run: ``label`` names a ceiling, empty for a plain rate.

    ``spent`` is True for what remains of ``ceilings`` once their credits are gone.
    """

    asked: Rate
    label: str = ""
    ceilings: tuple[Ceiling, ...] = ()
    spent: bool = False


@dataclass(frozen=True, kw_only=True)
class Run(ABC):
    """A run, or the part of it that is judged.

    ``where`` names the part as the end of a sentence (empty for a whole run), ``part_details`` holds its falls and
    its begin and end in seconds of the test. ``damage`` says what is wrong with the run's data; its series is then
    None. ``damage_of_totals`` is True if only its samples and its totals contradict each other. ``counters`` are those
    of the kind of run, None without any. Times are in seconds.

    ``job_limit`` is the limit that the job set on its own load, as it was given; None without one.

    ``keeps_outstanding`` says whether the load by its own parameters keeps ``outstanding_asked`` I/Os in flight at all
    times (None if it does not say), ``carried_with_as_many`` is a rate that this target carried with as many of them or
    fewer, ``more_load_by`` names the options to raise for more. ``modelled_latency`` is "none" if the embedded region
    models no latency, ``share_of_others`` the share of the devices' bytes that other loads moved at least,
    ``idle_at_start_s`` how long the target had nothing to do at the start, ``reads_nothing`` why its reads did not
    reach the storage. ``header_share`` is the share of the wire's rate that headers take, ``streams`` are the means of
    the connections, ``machine_rate`` is what the machine under an embedded region carries without any shaping, ``tool``
    the generator's versions and processes: "iperf3 3.12, 1 process".
    """

    kind: ClassVar[str]
    needs_longer: ClassVar[str]
    """What to lengthen for more samples, in the words of the call."""
    lift_limit: ClassVar[str]
    """What to do about the job's own limit, in the words of the call."""
    nothing: ClassVar[str]
    """What happened in a run with a rate of zero, in words."""
    falls_explain: ClassVar[bool]
    """True if a lasting fall to any level is why the mean of the whole run is low."""
    workers: ClassVar[tuple[str, str]]
    """The name of the load generator's parts, singular and plural."""

    block_size: Size
    """The size of one I/O; one byte for a network."""
    series: RateSeries | None
    envelope: Envelope
    counters: Any
    generator: GeneratorLoad | None
    runtime_s: float
    time_compression: float
    job_limit: Rate | None = None
    conditions: tuple[str, ...] = ()
    asked: Mapping[str, Any] = field(default_factory=dict)
    damage: str = ""
    damage_of_totals: bool = False
    where: str = ""
    part_details: dict[str, Any] = field(default_factory=dict)

    # Storage only.
    outstanding_asked: int | None = None
    latency_mean_s: float = math.nan
    latency_max_s: float = 0.0
    """0 if unknown."""
    machine_delay: MachineDelay | None = None
    modelled_latency: str | None = None
    idle_at_start_s: float = 0.0
    keeps_outstanding: bool | None = None
    carried_with_as_many: Iops | None = None
    more_load_by: str = "iodepth or numjobs"
    share_of_others: float | None = None
    reads_nothing: str = ""
    # Network only.
    header_share: float = 0.0
    streams: tuple[Bandwidth, ...] = ()
    machine_rate: Bandwidth | None = None
    tool: str = ""

    _timelines: dict[type[Rate], Timeline] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    # Rates

    @property
    @abstractmethod
    def rate(self) -> Rate:
        """The mean in the usual quantity: IOPS for storage, Gbit/s for a network."""

    @property
    @abstractmethod
    def rates(self) -> Rates:
        """The mean in both quantities."""

    @abstractmethod
    def rate_like(self, like: Rate) -> Rate:
        """Return the mean in the quantity of ``like``. Raises TypeError for IOPS of a network."""

    def rates_of(self, rate: Rate) -> Rates:
        """Return a rate of this run in both quantities, converted through its block size."""
        block = self.block_size
        if isinstance(rate, Iops):
            return Rates(rate, rate.at(block))
        return Rates(rate.in_ios_of(block), rate)

    def shown(self, rate: Rate) -> Rate:
        """Return the rate in the usual unit of this kind of run."""
        return rate

    # Series

    def timeline(self, like: Rate) -> Timeline:
        """Return the full samples in the quantity of ``like``, with the falls between their plateaus."""
        known = self._timelines.get(type(like))
        if known is None:
            seconds, values = timed_samples(self.series, like)
            known = Timeline(tuple(seconds), tuple(values), like, self.time_compression)
            self._timelines[type(like)] = known
        return known

    @abstractmethod
    def samples(self, like: Rate) -> Sequence[float]:
        """Return the one-second samples to judge, as plain figures in the quantity of ``like``."""

    @abstractmethod
    def part(self, line: Timeline, kept: Plateau, where: str) -> Self | None:
        """Return the part of this run that is one plateau of ``line``; None if it holds no sample."""

    @abstractmethod
    def for_samples(self, values: Sequence[float], mean: Rate) -> Self:
        """Return what is known of these samples, which need not lie in one piece, and of their mean."""

    # Limits

    def parse_target(self, target: object, call: str) -> Ceiling | Rate:
        """Return the ceiling or rate that a caller's target means. Raises TypeError or ValueError if it is invalid."""
        return as_rate_or_ceiling(target, call, network=self.kind != "storage")

    @abstractmethod
    def asked_of(self, target: Ceiling | Rate) -> Rate:
        """Return the rate that a parsed target requires of this run."""

    @abstractmethod
    def goal(self, target: object) -> Goal:
        """Return what `reaches` requires of this run. Raises TypeError or ValueError for an invalid target."""

    @abstractmethod
    def remark(self, goal: Goal, measured: Rate, within: float) -> str:
        """Return a remark on a rate that reached its goal: well above every limit, or short by headers only."""

    def beyond_limits(self) -> Doubt | None:
        """Return why the rate shows nothing: it is so far above the limits that something else must have served it."""
        return None

    @abstractmethod
    def may_burst(self, ceilings: Sequence[Ceiling]) -> bool:
        """Return True if a claim on ``ceilings`` may apply to the time before a burst ended."""

    @abstractmethod
    def bounds(self, rate: Rates, *, but: Sequence[Bound] = ()) -> tuple[Bound, ...]:
        """Return the promised ceilings that explain a rate, except those in ``but``."""

    @abstractmethod
    def nearest_bounds(self, rate: Rates) -> Sequence[Bound]:
        """Return every promised ceiling with the level that is nearest to a rate, and what its counters say."""

    @abstractmethod
    def counted_evidence(self, ceiling: Ceiling) -> tuple[Evidence, ...]:
        """Return the counter figures of a ceiling; empty without counters."""

    @abstractmethod
    def labels(self, found: Sequence[Bound]) -> str:
        """Return the names of limits for a sentence that is not certain about them."""

    @abstractmethod
    def bound_text(self, found: Sequence[Bound]) -> str:
        """Return "limited by ..." with the figures of ``found`` and what the counters say."""

    @abstractmethod
    def acted(self, ceiling: Ceiling) -> bool | None:
        """Return whether the counters saw the ceiling act; None if unknown."""

    @abstractmethod
    def ends_a_burst(self, rate: Rate, ceilings: Sequence[Ceiling]) -> bool:
        """Return True if a rate is what remains of a limit, promised or claimed, once its credits are spent."""

    @abstractmethod
    def unexplained(self) -> str:
        """Return the sentence for a low rate that no limit explains."""

    @property
    def on_region(self) -> bool:
        """True for a run on an embedded region."""
        return self.machine_delay is not None or bool(self.envelope.machine)

    # The load itself

    def own_limit(self, like: Rate) -> Rate | None:
        """Return `job_limit` in the quantity of ``like``; None without one."""
        return None if self.job_limit is None else self.rates_of(self.job_limit).like(like)

    def saturated(self) -> str | None:
        """Return a sentence if the load generator had no CPU time left."""
        load = self.generator
        if load is None:
            return None
        total, cpus, (one, several) = load.cpu_percent_total, load.cpus, self.workers
        if load.cpu_percent_busiest >= SATURATED_PERCENT:
            text = f"its busiest {one} used {figure(load.cpu_percent_busiest, 0)} % of a CPU"
        elif total is not None and cpus and total >= SATURATED_PERCENT * cpus:
            text = f"its {several} used {figure(total / cpus, 0)} % of all {cpus} CPUs"
        else:
            return None
        return f"{text} ({self.tool})" if self.tool else text

    # Sentences and details

    def headers_text(self, share: float, within: float) -> str:
        """Return a remark about headers if ``share`` of a limit is below its tolerance ``within``."""
        if self.header_share == 0 or share >= 1 - within:
            return ""
        return f"; headers take up to {figure(self.header_share * 100, 1)} % of the wire"

    def missing(self, measured: Rate) -> str | None:
        """Return a sentence if a run has no rate: a failed measurement does not break a promise."""
        value, unit = plain(measured), "IOPS" if isinstance(measured, Iops) else "bytes per second"
        if math.isfinite(value) and value > 0:
            return None
        what = f"the measurement has no rate ({value} {unit})"
        if value == 0:
            what = f"{self.nothing}, so nothing was measured"
        return f"{what}: look at the workload's own output"

    @abstractmethod
    def own_details(self) -> dict[str, Any]:
        """Return the plain values that only this kind of run has."""


def most_far_above(samples: int) -> float:
    """Return how many of ``samples`` seconds may lie `FAR_ABOVE` a limit: one, or 2 % if that is more."""
    return max(1.0, 0.02 * samples)

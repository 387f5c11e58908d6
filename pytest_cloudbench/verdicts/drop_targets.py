"""The level to which a rate is claimed to fall, and how long the burst before it lasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_cloudbench.limits.ceilings import INSTANCE, Ceiling
from pytest_cloudbench.limits.envelope import TIE, Envelope
from pytest_cloudbench.limits.network import BASELINE, PEAK
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput, figure
from pytest_cloudbench.verdicts.network_levels import NetworkLevel
from pytest_cloudbench.verdicts.network_run import NetworkRun
from pytest_cloudbench.verdicts.run_view import NEAR
from pytest_cloudbench.verdicts.storage_run import StorageRun
from pytest_cloudbench.verdicts.targets import ratio
from pytest_cloudbench.verdicts.wording import moment

# EC2 user guide, "Amazon EC2 instance network bandwidth": "typically from 5 to 60 minutes".
SHORTEST_NETWORK_BURST_S, LONGEST_NETWORK_BURST_S = 300.0, 3_600.0
# EBS user guide: an instance holds its maximum at least 30 minutes; a gp2 bucket lasts longer.
SHORTEST_STORAGE_BURST_S = 1_800.0
_WORTH_TELLING = 1.005


@dataclass(frozen=True)
class DropLevel:
    """A level with its name; ``bursts`` is False if it is known that nothing bursts above it.

    ``headers`` is the share of the rate that headers take, 0 for storage. Times are in seconds of the test, of a
    burst at ``full``, the limit while it lasts (None if unknown). A rate of at least ``full_from`` of it counts as
    that limit: the usual length of bursts is not exact, the length of a bucket is.
    """

    rate: Rate
    name: str
    ceilings: tuple[Ceiling, ...] = ()
    bursts: bool | None = None
    headers: float = 0.0
    shortest_burst_s: float = SHORTEST_STORAGE_BURST_S
    longest_burst_s: float | None = None
    full: Rate | None = None
    full_from: float = 1 - NEAR

    def lowest(self, within: float) -> float:
        """Return the smallest share of the level that counts as at it."""
        return (1 - within) * (1 - self.headers) * (1 - 1e-9)

    def highest(self, within: float) -> float:
        """Return the largest share of the level that counts as at it."""
        return (1 + within) * (1 + 1e-9)

    @property
    def owner_text(self) -> str:
        """The owner of the level, if any: ", m5.2xlarge network baseline"."""
        return f", {self.name.rsplit(', ', 1)[0]}" if self.ceilings else ""

    def headers_text(self, share: float, within: float) -> str:
        """Return a remark if only the share of headers lies between the rate and its tolerance."""
        if self.headers == 0 or share >= 1 - within:
            return ""
        return f"; headers take up to {figure(self.headers * 100, 1)} % of the wire"

    def ended_by_s(self, seen: Rate) -> float:
        """Return how long a run at this rate must last, in seconds, so that a burst of the usual length ends in it."""
        return (self.longest_burst_s or self.shortest_burst_s) * self.times_as_long(seen)

    def times_as_long(self, seen: Rate) -> float:
        """Return how many times as long credits last at this rate as at the limit.

        Credits are spent at the rate above the level: (limit - level) / (rate - level).
        """
        if self.full is None:
            return 1.0
        of_full = ratio(seen, self.full) / (1 - self.headers)
        level = ratio(self.rate, self.full)
        if of_full >= self.full_from or of_full <= level:
            return 1.0
        return (1 - level) / (of_full - level)

    def usual_text(self, seen: Rate) -> str:
        """Return how long bursts last, as the subject of a remark on a run that was shorter."""
        if self.longest_burst_s is None:
            text = f"bursts last at least {moment(self.shortest_burst_s)}"
        else:
            usual = f"{self.shortest_burst_s / 60:.0f} to {self.longest_burst_s / 60:.0f} minutes"
            text = f"by the EC2 user guide bursts last {usual}"
        times = self.times_as_long(seen)
        return (
            text
            if times < _WORTH_TELLING
            else f"{text}, {times:.3g} times as long at this rate as at {self.full}"
        )


def drop_level(run: StorageRun | NetworkRun, level: Ceiling | Iops | Throughput | str) -> DropLevel:
    """Return the level that ``level`` means for this run.

    Raises TypeError for a level without a unit or of another quantity, ValueError for a rate not above zero.
    """
    return _of_network(run, level) if isinstance(run, NetworkRun) else _of_storage(run, level)


def _of_network(run: NetworkRun, level: Ceiling | Iops | Throughput | str) -> DropLevel:
    target = run.target(level, "drops_to", by_figure=True)
    (found, *_) = target.levels
    spent = [one for one in run.levels if one.spent and one.ceiling.same_as(found.ceiling)]
    if spent and not found.spent and not target.plain:
        found = spent[0]
    elif isinstance(found.ceiling.base, Throughput) and not found.spent and not target.plain:
        found = NetworkLevel.of(found.ceiling, found.ceiling.base, found.acted, spent=True)
    promised = found.ceiling.scope == INSTANCE
    bursts = True if found.spent else None
    if not bursts and not target.plain and found.ceiling.quantity in (PEAK, BASELINE):
        bursts = False
    return DropLevel(
        rate=found.rate,
        name=f"{found.label}, {found.rate}" if promised else f"{found.rate}",
        ceilings=(found.ceiling,) if promised else (),
        bursts=bursts,
        headers=run.header_share,
        shortest_burst_s=SHORTEST_NETWORK_BURST_S,
        longest_burst_s=LONGEST_NETWORK_BURST_S,
        full=run.envelope.bandwidth_of(found.ceiling) if found.spent else None,
    )


def _of_storage(run: StorageRun, level: Ceiling | Iops | Throughput | str) -> DropLevel:
    given, shape = run.parse_target(level, "drops_to"), run.envelope
    if not isinstance(given, Ceiling):
        return _with_burst(DropLevel(given, f"{given}"), shape, shape.promised.ceilings)
    known = run.known(given)
    levels = shape.levels_of(known)
    spent = [one for one in levels if one.burst_spent]
    rate = (spent or list(levels))[0].like(known.limit)
    return _with_burst(DropLevel(rate, f"{known.label}, {rate}", (known,), bool(spent)), shape, [known])


def _with_burst(level: DropLevel, shape: Envelope, ceilings: Sequence[Ceiling]) -> DropLevel:
    """Return a level with the length of the burst that ends at it: the longest if several do."""
    found = []
    for ceiling in ceilings:
        levels = shape.levels_of(ceiling)
        spent = len(levels) // 2  # the second half repeats the first with the burst spent
        for full, left in zip(levels[:spent], levels[spent:], strict=False):
            same = abs(ratio(left.like(level.rate), level.rate) - 1) <= TIE
            if ceiling.base is not None and same:
                exact = ceiling.burst_s is not None
                lasts_s = ceiling.burst_s or SHORTEST_STORAGE_BURST_S
                found.append((lasts_s, full.like(level.rate), 1.0 if exact else 1 - NEAR))
    if not found:
        return level
    lasts_s, limit, full_from = max(found, key=lambda burst: burst[0])
    return replace(level, shortest_burst_s=lasts_s, full=limit, full_from=full_from)

"""The levels at which a network's limits hold, and the claims that tests make about them."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.ceilings import FLOW, Ceiling
from pytest_cloudbench.limits.envelope import Level
from pytest_cloudbench.limits.network import BASELINE, BOTH_ENDS, ONE_BYTE, PEAK
from pytest_cloudbench.limits.quantities import Bandwidth, Throughput
from pytest_cloudbench.verdicts.run_view import Bound
from pytest_cloudbench.verdicts.wording import listed


@dataclass(frozen=True)
class NetworkLevel(Bound):
    """A rate at which a ceiling holds all the streams together."""

    level: Level

    @classmethod
    def of(
        cls, ceiling: Ceiling, rate: Throughput, acted: bool | None, *, spent: bool = False
    ) -> NetworkLevel:
        """Return the level of ``rate``; ``spent`` says that it remains once network credits are gone."""
        how = "network credits spent" if spent else ""
        return cls(ceiling, Level(rate.in_ios_of(ONE_BYTE), Bandwidth.of(rate), how), acted)

    @property
    def rate(self) -> Bandwidth:
        """The limit over all streams."""
        return Bandwidth.of(self.level.throughput)

    @property
    def spent(self) -> bool:
        """True for what remains once network credits are gone."""
        return bool(self.level.how)

    @property
    def label(self) -> str:
        """The ceiling's name: "m5.2xlarge network baseline"."""
        if self.spent and self.ceiling.quantity == PEAK:
            return f"{self.ceiling.owner} {BASELINE}"
        return self.ceiling.label

    def same_as(self, other: NetworkLevel) -> bool:
        """Return True if both are the same level of the same ceiling."""
        same = self.ceiling.same_as(other.ceiling) and self.spent == other.spent
        return same and self.rate == other.rate

    def named(self, streams: int) -> str:
        """Return name, figure and remarks: "t2.medium network bandwidth, 1.02 Gbit/s (the client's end)"."""
        text = f"{self.label}, {self.rate}"
        if self.ceiling.scope == FLOW:
            if streams > 1:
                text = f"{self.label}, {streams} x {self.rate / streams} = {self.rate}"
            return f"{text} {self.ceiling.detail}".rstrip()
        remarks = [self.ceiling.detail] if self.ceiling.detail not in ("", BOTH_ENDS) else []
        if self.spent:
            remarks.append("its network credits are spent")
        return f"{text} ({', '.join(remarks)})" if remarks else text


@dataclass(frozen=True)
class NetworkTarget:
    """The levels that a claim is about; several if a plain figure stands for all of them.

    ``plain`` is True for a rate that the test names, False for a ceiling.
    """

    levels: tuple[NetworkLevel, ...]
    plain: bool = False

    @property
    def asked(self) -> Bandwidth:
        """The rate, all streams together."""
        return self.levels[0].rate

    @property
    def spent(self) -> bool:
        """True if it is what remains once network credits are gone."""
        return all(level.spent for level in self.levels)

    @property
    def label(self) -> str:
        """The names of the levels in a sentence."""
        return listed(level.label for level in self.levels)

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        return tuple(level.ceiling for level in self.levels)

    def holds(self, level: NetworkLevel) -> bool:
        """Return True if a level belongs to the claim."""
        return any(level.same_as(mine) for mine in self.levels)

"""What a judge of a network is asked about: a ceiling or a rate, and which part of the run it speaks of."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.ceilings import FLOW, GIVEN, INSTANCE, Ceiling
from pytest_cloudbench.limits.envelope import TIE
from pytest_cloudbench.limits.network import BASELINE, BOTH_ENDS, PEAK, NetworkEnvelope
from pytest_cloudbench.limits.quantities import Bandwidth, Throughput
from pytest_cloudbench.verdicts.targets import as_rate_or_ceiling
from pytest_cloudbench.verdicts.wording import listed


@dataclass(frozen=True)
class NetworkLevel:
    """A rate at which a ceiling holds all the streams together; ``spent``: once network credits are gone."""

    ceiling: Ceiling
    rate: Bandwidth
    spent: bool = False

    @property
    def label(self) -> str:
        """The ceiling's name: "m5.2xlarge network baseline"."""
        if self.spent and self.ceiling.quantity == PEAK:
            return f"{self.ceiling.owner} {BASELINE}"
        return self.ceiling.label

    def named(self, streams: int) -> str:
        """Name, figure, and what there is to remark: "t2.medium network bandwidth, 1.02 Gbit/s (the client's end)"."""
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
    """The levels that a claim is about (several where a plain figure stands for all of them).

    ``plain`` tells a rate that the test names from a ceiling.
    """

    levels: tuple[NetworkLevel, ...]
    plain: bool = False

    @property
    def asked(self) -> Bandwidth:
        """The rate, all streams together."""
        return self.levels[0].rate

    @property
    def spent(self) -> bool:
        """Whether it is what remains once network credits are gone."""
        return all(level.spent for level in self.levels)

    @property
    def label(self) -> str:
        """Their names in a sentence."""
        return listed(level.label for level in self.levels)

    def holds(self, level: NetworkLevel) -> bool:
        """Whether a level belongs to the claim."""
        return any(level.ceiling.same_as(mine.ceiling) and level.spent == mine.spent for mine in self.levels)


def levels_in(envelope: NetworkEnvelope) -> tuple[NetworkLevel, ...]:
    """Every level of every promised ceiling, lowest first."""
    found = []
    for ceiling in envelope.promised.ceilings:
        full, *spent = envelope.levels_of(ceiling)
        found.append(NetworkLevel(ceiling, Bandwidth.of(full.throughput)))
        found += [NetworkLevel(ceiling, Bandwidth.of(level.throughput), spent=True) for level in spent]
    return tuple(sorted(found, key=lambda level: level.rate))


def network_target(
    target: object, call: str, envelope: NetworkEnvelope, *, by_figure: bool = False
) -> NetworkTarget:
    """The claim that a caller's target makes of a network.

    ``by_figure``: a plain rate stands for every promised level of that figure (within 0.5 %).

    Raises TypeError for what has no unit or is none of a network, ValueError for no rate.
    """
    given = as_rate_or_ceiling(target, call, network=True)
    if isinstance(given, Ceiling):
        return NetworkTarget((_level(given, envelope),))
    assert isinstance(given, Throughput)
    asked = Bandwidth.of(given)
    same = tuple(level for level in levels_in(envelope) if abs(level.rate / asked - 1) <= TIE)
    if by_figure and same:
        return NetworkTarget(same, plain=True)
    given_limit = Ceiling("the given limit", "", GIVEN, asked, "given in the test")
    return NetworkTarget((NetworkLevel(given_limit, asked),), plain=True)


def _level(ceiling: Ceiling, envelope: NetworkEnvelope) -> NetworkLevel:
    """The ceiling's level, with the envelope's own figures where it has them."""
    if ceiling.quantity == BASELINE and ceiling.scope == INSTANCE:
        for mine in envelope.ceilings:
            if (mine.owner, mine.quantity) == (ceiling.owner, PEAK):
                full, *spent = envelope.levels_of(mine)
                return NetworkLevel(mine, Bandwidth.of((spent or [full])[0].throughput), bool(spent))
        return NetworkLevel(ceiling, envelope.bandwidth_of(ceiling), spent=True)
    mine_or_given = envelope.find(ceiling) or ceiling
    return NetworkLevel(mine_or_given, envelope.bandwidth_of(mine_or_given))

"""A run over a network as judges see it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_cloudbench.limits.ceilings import FLOW, GIVEN, INSTANCE, Ceiling
from pytest_cloudbench.limits.envelope import TIE
from pytest_cloudbench.limits.network import BASELINE, ONE_BYTE, PEAK, NetworkEnvelope
from pytest_cloudbench.limits.quantities import Bandwidth, Iops, Rate, Throughput
from pytest_cloudbench.verdicts.change_point import falls_details
from pytest_cloudbench.verdicts.counters import ACTED_PER_SECOND, AllowancePair
from pytest_cloudbench.verdicts.damage import damage_of
from pytest_cloudbench.verdicts.network_levels import NetworkLevel, NetworkTarget
from pytest_cloudbench.verdicts.observation import GeneratorLoad, NetworkObservation
from pytest_cloudbench.verdicts.run_view import NEAR, Bound, Goal, Rates, Run, Samples
from pytest_cloudbench.verdicts.targets import ratio
from pytest_cloudbench.verdicts.timeline import Plateau, Timeline
from pytest_cloudbench.verdicts.verdict import Evidence
from pytest_cloudbench.verdicts.wording import listed, percent

HEADER_BYTES = 70
"""What a segment adds to its data on the wire: Ethernet 18 with its checksum, IP 20, TCP with timestamps 32."""
USUAL_MTU = 9001
"""Between instances of one region, unless somebody changed it (EC2 user guide, "Network MTU")."""
_ETHERNET_BYTES, _IP_BYTES, _UDP_BYTES = 18, 20, 8
_LOSS_TO_REPORT = 0.001


@dataclass(frozen=True, kw_only=True)
class NetworkRun(Run):
    """A run over a network: what arrived, all streams together, without headers.

    ``whole`` and ``streams`` are means of the whole run, ``lost_share`` is the share of UDP datagrams that did not
    arrive (None for TCP).
    """

    kind = "a network"
    needs_longer = "lengthen the duration"
    lift_limit = "ask for more than the limit, or leave the bitrate out"
    nothing = "nothing arrived"
    falls_explain = True
    workers = "process", "processes"

    throughput: Bandwidth
    whole: Bandwidth
    envelope: NetworkEnvelope
    counters: AllowancePair | None
    job_limit: Bandwidth | None = None
    lost_share: float | None = None

    @classmethod
    def of(cls, obs: NetworkObservation) -> NetworkRun:
        """Return the view of a measurement; an attribute that it lacks is unknown."""
        damage = damage_of(obs, {"throughput": obs.throughput})
        asked: object = getattr(obs, "asked", None)
        own, lost = getattr(obs, "rate_asked", None), getattr(obs, "lost_percent", None)
        load = getattr(obs, "generator", None)
        streams = tuple(Bandwidth.of(stream.throughput) for stream in obs.streams)
        lost_share = None if lost is None else float(lost) / 100
        envelope = obs.envelope
        if not isinstance(envelope, NetworkEnvelope):
            envelope = NetworkEnvelope((), streams=max(1, len(streams)))
        machine = envelope.machine
        return cls(
            throughput=Bandwidth.of(obs.throughput),
            whole=Bandwidth.of(obs.throughput),
            streams=streams,
            block_size=ONE_BYTE,
            series=None if damage.text else obs.series,
            damage=damage.text,
            damage_of_totals=damage.of_totals,
            envelope=envelope,
            machine_rate=envelope.bandwidth_of(machine[0]) if machine else None,
            counters=obs.counters,
            generator=load if isinstance(load, GeneratorLoad) else None,
            runtime_s=obs.runtime_s,
            time_compression=float(getattr(obs, "time_compression", None) or 1.0),
            conditions=tuple(str(one) for one in getattr(obs, "conditions", ())),
            asked=asked if isinstance(asked, Mapping) else {},
            job_limit=Bandwidth.of(own) if isinstance(own, Throughput) else None,
            lost_share=lost_share,
            header_share=_header_share(obs, asked, lost_share),
            tool=_tool_text(obs),
        )

    # Rates and series

    @property
    def rate(self) -> Bandwidth:
        return self.throughput

    @property
    def rates(self) -> Rates:
        return self.rates_of(self.throughput)

    def rate_like(self, like: Rate) -> Bandwidth:
        if isinstance(like, Iops):
            raise TypeError(f"{like}: a network has no I/O operations; write a rate such as '9.5 Gbit/s'")
        return self.throughput

    def shown(self, rate: Rate) -> Rate:
        return Bandwidth.of(rate) if isinstance(rate, Throughput) else rate

    def samples(self, like: Rate) -> Sequence[float]:
        line = self.timeline(like)
        return line.of_real_seconds(line.values)

    def part(self, line: Timeline, kept: Plateau, where: str) -> NetworkRun:
        """Return the part of this run that is one plateau of ``line``; counters and streams stay those of the run."""
        values = line.of_real_seconds(kept.values)
        return replace(
            self.for_samples(values, Bandwidth(kept.mean)),
            where=where,
            part_details={"judged_from_s": kept.begin_s, "judged_to_s": kept.end_s},
        )

    def for_samples(self, values: Sequence[float], mean: Rate) -> NetworkRun:
        """Return what is known of these seconds (bytes per second), which need not lie in one piece."""
        assert isinstance(mean, Throughput)
        seconds = [float(number) for number in range(1, len(values) + 1)]
        series = Samples(seconds, [Bandwidth(value) for value in values])
        return replace(self, throughput=Bandwidth.of(mean), series=series, time_compression=1.0)

    # Limits

    def asked_of(self, target: Ceiling | Rate) -> Rate:
        return self.shown(target.limit if isinstance(target, Ceiling) else target)

    def goal(self, target: object) -> Goal:
        found = self.target(target, "reaches")
        return Goal(found.asked, "" if found.plain else found.label, found.ceilings, found.spent)

    def remark(self, goal: Goal, measured: Rate, within: float) -> str:
        if below := self.headers_text(ratio(measured, goal.asked), within):
            return below
        if goal.spent and ratio(measured, goal.asked) > 1 + NEAR:
            return "; well above it: its network credits were not spent"
        full = [level for level in self.levels if not level.spent]
        if not full or ratio(measured, full[0].rate) <= 1 + NEAR:
            return ""
        above = percent(ratio(measured, full[0].rate) - 1)
        return (
            f"; but {above} above {full[0].label}, {full[0].rate}: look for a cluster placement group, "
            "ENA Express or other instances"
        )

    def may_burst(self, ceilings: Sequence[Ceiling]) -> bool:
        return True

    def target(self, target: object, call: str, *, by_figure: bool = False) -> NetworkTarget:
        """Return the claim that a caller's target makes.

        With ``by_figure`` a plain rate stands for every promised level of that figure (within 0.5 %).

        Raises TypeError for a target without a unit or of storage, ValueError for a rate that is not above zero.
        """
        given = self.parse_target(target, call)
        if isinstance(given, Ceiling):
            return NetworkTarget((self._level(given),))
        assert isinstance(given, Throughput)
        asked = Bandwidth.of(given)
        same = tuple(level for level in self.levels if abs(level.rate / asked - 1) <= TIE)
        if by_figure and same:
            return NetworkTarget(same, plain=True)
        ceiling = Ceiling("the given limit", "", GIVEN, asked, "given in the test")
        return NetworkTarget((NetworkLevel.of(ceiling, asked, None),), plain=True)

    @property
    def levels(self) -> tuple[NetworkLevel, ...]:
        """Every level of every promised ceiling, lowest first."""
        found = []
        for ceiling in self.envelope.promised.ceilings:
            said = self.acted(ceiling)
            found += [NetworkLevel(ceiling, level, said) for level in self.envelope.levels_of(ceiling)]
        return tuple(sorted(found, key=lambda level: level.rate))

    def _level(self, ceiling: Ceiling) -> NetworkLevel:
        """Return the ceiling's level, with the envelope's own figures if it has them."""
        said = self.acted(ceiling)
        if ceiling.quantity == BASELINE and ceiling.scope == INSTANCE:
            peaks = [
                one for one in self.envelope.ceilings if (one.owner, one.quantity) == (ceiling.owner, PEAK)
            ]
            if peaks:
                mine = next((one for one in peaks if one.base == ceiling.limit), peaks[0])
                return NetworkLevel(mine, self.envelope.levels_of(mine)[-1], self.acted(mine))
            return NetworkLevel.of(ceiling, self.envelope.bandwidth_of(ceiling), said, spent=True)
        known = self.envelope.find(ceiling) or ceiling
        return NetworkLevel.of(known, self.envelope.bandwidth_of(known), self.acted(known))

    def is_at(self, rate: Throughput, level: Bandwidth, near: float = NEAR) -> bool:
        """Return True if data flows at a limit of the wire: within ``near`` of it, less the share of headers."""
        return (1 - near) * (1 - self.header_share) <= rate / level <= 1 + near

    def bounds(self, rate: Rates, *, but: Sequence[Bound] = ()) -> tuple[NetworkLevel, ...]:
        """Return the promised levels at which a rate lies.

        Those that counters confirm if there are any, else those that counters do not deny. A count of no packets above
        an allowance excludes a level only if another level is possible, or on an embedded region: its counters are
        exact, and its machine may happen to carry just as much.
        """
        excluded = [level for level in but if isinstance(level, NetworkLevel)]
        found = [
            level
            for level in self.levels
            if not any(level.same_as(other) for other in excluded)
            and self.is_at(rate.throughput, level.rate)
            and not (level.ceiling.scope == FLOW and self.unequal_streams(level))
        ]
        confirmed = [level for level in found if level.acted]
        possible = [level for level in found if level.acted is not False]
        return tuple(confirmed or possible or ([] if self.on_region else found))

    def nearest_bounds(self, rate: Rates) -> tuple[NetworkLevel, ...]:
        return self.levels

    def counted_evidence(self, ceiling: Ceiling) -> tuple[Evidence, ...]:
        ends = self.counters.of(ceiling) if self.counters is not None else ()
        return tuple(
            Evidence(
                "packets above the allowance",
                end.bandwidth_exceeded,
                ACTED_PER_SECOND * end.elapsed_s,
                "packets",
            )
            for end in ends
        )

    def unequal_streams(self, level: NetworkLevel) -> bool:
        """Return True if the streams rule out a limit per flow: with one, each stream would lie at it."""
        if len(self.streams) < 2:
            return False
        each = level.rate / len(self.streams)
        return not all(self.is_at(stream, each, 2 * NEAR) for stream in self.streams)

    def labels(self, found: Sequence[Bound]) -> str:
        return listed((level.label for level in found if isinstance(level, NetworkLevel)), "or")

    def bound_text(self, found: Sequence[Bound]) -> str:
        levels = [level for level in found if isinstance(level, NetworkLevel)]
        streams = self.envelope.streams
        text = f"limited by {listed(level.named(streams) for level in levels)}"
        if any(level.ceiling.scope == FLOW for level in levels) and streams > 1:
            text += ", each stream at its own"
        counted = self.counted if any(level.acted for level in levels) else ""
        return f"{text}; {counted}" if counted else text

    def acted(self, ceiling: Ceiling) -> bool | None:
        return self.counters.bandwidth_acted(ceiling) if self.counters is not None else None

    @property
    def counted(self) -> str:
        """Which allowances were exceeded at which end, in words; empty if none was."""
        return self.counters.exceeded_text if self.counters is not None else ""

    def ends_a_burst(self, rate: Rate, ceilings: Sequence[Ceiling]) -> bool:
        assert isinstance(rate, Throughput)
        spent = [level.rate for level in self.levels if level.spent]
        spent += [Bandwidth.of(one.base) for one in ceilings if isinstance(one.base, Throughput)]
        return any(self.is_at(rate, level) for level in spent)

    def unexplained(self) -> str:
        lost = self.lost_share
        dropped = f"; {percent(lost)} of the datagrams were lost" if lost and lost >= _LOSS_TO_REPORT else ""
        if not self.envelope.promised.ceilings:
            return f"its limits are not known, so none explains it{dropped}"
        if self.counted:
            return f"no known limit explains it, but the instances counted {self.counted}{dropped}"
        if self.counters is None:
            return f"no known limit explains it, and there are no allowance counters{dropped}"
        return f"no known limit explains it, and no allowance counter saw one act{dropped}"

    # Sentences and details

    def own_details(self) -> dict[str, Any]:
        return {
            "mean": self.whole.bytes_per_second,
            "header_share": self.header_share,
            "streams": [stream.bytes_per_second for stream in self.streams],
            "lost_share": self.lost_share,
            **falls_details(self.timeline(self.throughput).falls),
        }


def _header_share(obs: NetworkObservation, asked: object, lost_share: float | None) -> float:
    """Return the share of a wire's rate that headers take, so this share of a limit is never data."""
    if (datagram := _size(asked, "length_bytes")) and lost_share is not None:
        frames = math.ceil((datagram + _UDP_BYTES) / (USUAL_MTU - _IP_BYTES))
        headers = frames * (_ETHERNET_BYTES + _IP_BYTES) + _UDP_BYTES
        return headers / (headers + datagram)
    data = getattr(obs, "mss", None) or _size(asked, "mss_bytes") or USUAL_MTU - 52
    return HEADER_BYTES / (HEADER_BYTES + data)


def _size(asked: object, name: str) -> int | None:
    """Return a size that the job requested, in bytes; None if it requested none."""
    size = asked.get(name) if isinstance(asked, Mapping) else None
    return size if isinstance(size, int) and size > 0 else None


def _tool_text(obs: NetworkObservation) -> str:
    versions: object = getattr(obs, "tool_versions", None)
    known = sorted({str(version) for version in versions.values()}) if isinstance(versions, Mapping) else []
    names = (version if version.startswith("iperf") else f"iperf3 {version}" for version in known)
    words = [" and ".join(names)] if known else []
    processes: Any = getattr(obs, "processes", None)
    if isinstance(processes, int):
        words.append("1 process" if processes == 1 else f"{processes} processes")
    return ", ".join(words)

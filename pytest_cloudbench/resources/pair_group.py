"""Several paths between instances, loaded at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.fleet import summed_ceiling
from pytest_cloudbench.limits.network import NetworkEnvelope, envelope_of_ends
from pytest_cloudbench.resources.instance import Instance
from pytest_cloudbench.resources.pair import Pair, PairSnapshot, private_address
from pytest_cloudbench.verdicts.counters import AllowancePair
from pytest_cloudbench.workloads.target import PathGroup


@dataclass(frozen=True)
class GroupSnapshot:
    """The allowance counters of several pairs at one moment."""

    pairs: tuple[PairSnapshot, ...]

    def since(self, earlier: GroupSnapshot) -> tuple[AllowancePair, ...]:
        """Return the increase of each pair's counters since `earlier`."""
        return tuple(now.since(then) for now, then in zip(self.pairs, earlier.pairs, strict=True))


class PairGroup(PathGroup, Sequence[Pair]):
    """Several pairs; as the target of iperf3, the network of all of them at once.

    An instance may be an end of several pairs: its own limit then counts once. ``name`` begins the label.
    """

    def __init__(self, pairs: Sequence[Pair], name: str = "") -> None:
        if not pairs:
            raise ValueError("a group of pairs needs at least one: a fleet of one instance has none")
        self._pairs = tuple(pairs)
        ends = dict.fromkeys(f"{pair.client.type} -> {pair.server.type}" for pair in pairs)
        self._name = name or " and ".join(ends)

    def __getitem__(self, index: Any) -> Any:
        return self._pairs[index]

    def __len__(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._pairs)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return self._pairs

    @property
    def label(self) -> str:
        return f"{self._name} ({len(self)} pairs)"

    def envelope(self, *, streams: int, reverse: bool = False, udp: bool = False) -> NetworkEnvelope:
        """Return the ceilings of ``streams`` connections of each pair, for all pairs together.

        The limits of the instances are the sum over all clients, and the sum over all servers.
        """
        return envelope_of_ends(
            _network_of(pair.client for pair in self),
            _network_of(pair.server for pair in self),
            streams=streams * len(self),
            cluster=all(pair.cluster for pair in self),
            machine=self[0].client.machine_limits(),
            ena_express=all(pair.ena_express(udp=udp) for pair in self),
        )

    def counters(self) -> GroupSnapshot | None:
        """Return the allowance counters of all instances now; None if none has any."""
        from pytest_cloudbench.hosts.network_counters import read_allowances

        ends = dict.fromkeys(end for pair in self for end in (pair.client, pair.server))
        found = {end: read_allowances(end.host, private_address(end)) for end in ends}
        if not any(found.values()):
            return None
        return GroupSnapshot(tuple(PairSnapshot(found[pair.client], found[pair.server]) for pair in self))

    def __repr__(self) -> str:
        return f"<{self.label}>"


def _network_of(instances: Iterator[Instance]) -> Ceiling | None:
    """Return the network limit of all these instances together, each counted once; None if one has no figure."""
    distinct = dict.fromkeys(instances)
    peaks = [peak for each in distinct if (peak := each.limits.network_peak) is not None]
    return summed_ceiling(peaks) if len(peaks) == len(distinct) else None

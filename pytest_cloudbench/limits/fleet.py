"""The ceilings of several hosts under one load: the sums of their own, with those of a shared machine counted once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_cloudbench.limits.ceilings import INSTANCE, MACHINE, Ceiling
from pytest_cloudbench.limits.envelope import TIE, Envelope
from pytest_cloudbench.limits.quantities import Rate, Throughput, plain


def summed_ceiling(ceilings: Sequence[Ceiling]) -> Ceiling:
    """Return the same limit of several owners as one limit of all of them together.

    A limit that does not burst counts with its full figure once the credits of the others are spent.
    """
    first = ceilings[0]
    if len(ceilings) == 1:
        return first
    bursts = any(each.base is not None for each in ceilings)
    bases = [each.base if each.base is not None else each.limit for each in ceilings]
    credits = [each.burst_credits for each in ceilings if each.base is not None]
    known = bursts and None not in credits
    return replace(
        first,
        owner=_owner([each.owner for each in ceilings]),
        limit=_sum([each.limit for each in ceilings]),
        base=_sum(bases) if bursts else None,
        detail=_counted(each.detail for each in ceilings) if first.detail else "",
        note="; ".join(dict.fromkeys(each.note for each in ceilings if each.note)),
        burst_credits=sum(each or 0.0 for each in credits) if known else None,
    )


def fleet_envelope(envelopes: Sequence[Envelope]) -> Envelope:
    """Return the envelope of equal loads on several hosts, one envelope for each.

    A limit that some host does not have is left out. Hosts under different limits reach none of the sums: then the sum
    of each host's lowest limit is a ceiling too.
    """
    first = envelopes[0]
    groups: dict[tuple[object, ...], list[Ceiling]] = {}
    for envelope in envelopes:
        for ceiling in envelope.ceilings:
            key = (ceiling.scope, ceiling.quantity, ceiling.of_iops, ceiling.of_reads)
            groups.setdefault(key, []).append(ceiling)
    found = [
        each[0] if each[0].scope == MACHINE else summed_ceiling(each)
        for each in groups.values()
        if len(each) == len(envelopes)
    ]
    together = replace(first, ceilings=tuple(found))
    return replace(together, ceilings=(*found, *_lowest_together(envelopes, together)))


def _lowest_together(envelopes: Sequence[Envelope], together: Envelope) -> list[Ceiling]:
    """Return the ceiling of hosts under different limits, if it is lower than every sum."""
    lowest = [each.promised.ordered[0] for each in envelopes if each.promised.ceilings]
    sums = together.promised.ordered
    if len(lowest) < len(envelopes) or not sums:
        return []
    allowed = Throughput(
        sum(
            each.throughput_of(ceiling).bytes_per_second
            for each, ceiling in zip(envelopes, lowest, strict=True)
        )
    )
    if allowed >= together.throughput_of(sums[0]) * (1 - TIE):
        return []
    return [
        Ceiling(
            owner=_counted(ceiling.owner for ceiling in lowest),
            quantity="lowest limits together",
            scope=INSTANCE,
            limit=allowed,
            source="; ".join(dict.fromkeys(ceiling.source for ceiling in lowest)),
            date=max(ceiling.date for ceiling in lowest),
        )
    ]


def _sum(rates: Sequence[Rate]) -> Rate:
    like = type(rates[0])
    return like(sum(plain(rate) for rate in rates))


def _owner(owners: Sequence[str]) -> str:
    """Return one name for all owners: "2 x io2" for different volumes of a type, else each name with its number."""
    types = {owner.partition(" ")[0] for owner in owners}
    if len(set(owners)) == len(owners) and len(types) == 1:
        return f"{len(owners)} x {types.pop()}"
    return _counted(owners)


def _counted(names: Iterable[str]) -> str:
    """Return names with their number: "4 x c5.large", "2 x c5.large + 2 x c5.xlarge"."""
    listed = list(names)
    return " + ".join(f"{listed.count(name)} x {name}" for name in dict.fromkeys(listed))

"""Checks of the targets, ceilings and tolerances that callers pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pytest_cloudbench.limits.ceilings import FLOW, GIVEN, VOLUME, Ceiling
from pytest_cloudbench.limits.envelope import TIE, Envelope
from pytest_cloudbench.limits.network import BASELINE, PEAK
from pytest_cloudbench.limits.numbers import parse_number
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput, figure, parse_rate, plain

ROUNDING = 1e-9
"""What a comparison of shares allows for binary fractions: 0.9 x 80,000 must not miss 72,000."""
_NO_SHARE = 5.0
"""A bare number from here on is more likely per cent than a share of 1."""
EXAMPLES = (
    "a ceiling such as ebs_volume.iops or ec2_instance.ebs_throughput, "
    "or a rate with its unit such as '3,000 IOPS' or '125 MiB/s'"
)


NETWORK_EXAMPLES = (
    "a ceiling such as ec2_pair.client.network_peak or ec2_pair.client.network_baseline, "
    "or a rate with its unit such as '9.5 Gbit/s'"
)


def as_rate_or_ceiling(target: object, call: str, *, network: bool = False) -> Ceiling | Rate:
    """Return a ceiling or a typed rate from a caller's target, for a run on storage or over a ``network``.

    Raises TypeError for a bare number or anything else without a unit and for a target of the other kind of run,
    ValueError for a text that is not a rate and for a rate that is not above zero.
    """
    if isinstance(target, str):
        target = parse_rate(target)
    examples = NETWORK_EXAMPLES if network else EXAMPLES
    if isinstance(target, bool) or not isinstance(target, (int, float, Ceiling, Iops, Throughput)):
        if target is None:
            raise TypeError(
                f"{call}(None): there is no such ceiling here (this instance type or volume has no such "
                f"figure); pass {examples}"
            )
        raise TypeError(f"{call}({target!r}) is not a rate: pass {examples}")
    if isinstance(target, (int, float)):
        number = figure(float(target))
        if network:
            raise TypeError(
                f"{call}({target!r}) has no unit: write {call}('{number} Gbit/s'), or pass {examples}"
            )
        raise TypeError(
            f"{call}({target!r}) has no unit: write {call}('{number} IOPS') or {call}('{number} MiB/s'), "
            f"or pass a ceiling such as ebs_volume.iops"
        )
    if is_of_network(target) not in (None, network):
        kind = "a network" if network else "storage"
        raise TypeError(f"{call}({target}): that is not a limit or rate of {kind}; pass {examples}")
    rate = target.limit if isinstance(target, Ceiling) else target
    if not plain(rate) > 0 or not math.isfinite(plain(rate)):
        raise ValueError(f"{call}({rate}): the rate must be a finite figure above zero")
    return target


def is_of_network(target: Ceiling | Rate) -> bool | None:
    """Return True for a target that only a network can have, False for one of storage, None if either can have it."""
    if isinstance(target, Iops) or (isinstance(target, Ceiling) and target.of_iops):
        return False
    if not isinstance(target, Ceiling):
        return None
    if target.scope == FLOW or target.quantity in (PEAK, BASELINE):
        return True
    return False if target.scope == VOLUME or target.quantity.startswith("EBS") else None


def as_ceilings(target: Ceiling | Rate, envelope: Envelope) -> tuple[Ceiling, ...]:
    """Return the ceilings that a claim is about.

    A ceiling stands for itself, with the envelope's own figures if it has them. A plain rate stands for every
    promised ceiling of that figure (within 0.5 %, at the run's block size), or for itself if there is none. Raises
    ValueError for a ceiling of another volume or instance, if the run's own are known.
    """
    promised = envelope.promised.ordered
    if isinstance(target, Ceiling):
        check_is_of(target, promised)
        return (envelope.find(target) or target,)
    same = tuple(
        ceiling
        for ceiling in promised
        if ceiling.of_iops == isinstance(target, Iops) and abs(ratio(ceiling.limit, target) - 1) <= TIE
    )
    if not same:
        # A figure may state the other quantity of a ceiling, as it follows from the run's block size.
        same = tuple(
            ceiling
            for ceiling in promised
            if abs(ratio(envelope.levels_of(ceiling)[0].like(target), target) - 1) <= TIE
        )
    return same or (Ceiling("the given limit", "", GIVEN, target, "given in the test"),)


def check_is_of(target: Ceiling, promised: Sequence[Ceiling]) -> None:
    """Raise ValueError if a ceiling belongs to another volume or instance than those of the run."""
    owners = {ceiling.owner for ceiling in promised if ceiling.scope == target.scope}
    if owners and target.owner not in owners:
        raise ValueError(
            f"capped_by({target}): that is not a limit of this run, whose limits are those of "
            f"{', '.join(sorted(owners))}: pass one of these"
        )


def checked_within(within: object) -> float:
    """Return a tolerance as a share of 1, from 0 to below 1. Raises as `as_share` does."""
    rule = "a tolerance is a share of 1, from 0 to below 1, such as 0.10 or '10 %'"
    return as_share("within", within, rule, lambda share: 0 <= share < 1)


def checked_share(share: object) -> float:
    """Return a share of time as a share of 1, above 0. Raises as `as_share` does."""
    rule = "a share of time is a share of 1, above 0 and at most 1, such as 0.999 or '99.9 %'"
    return as_share("share", share, rule, lambda share: 0 < share <= 1)


def checked_more(by: object) -> float:
    """Return how much more is required, as a share of 1, above -1; a negative share allows for less.

    Raises as `as_share` does. A bare number from 5 on is refused: it would mean 500 % and is usually meant as per cent.
    """
    rule = (
        "by how much more is a share of 1, such as by=0.10 for 10 %, and from 5 on a text, such as by='500 %'"
    )
    return as_share("by", by, rule, lambda share: share > -1 and (isinstance(by, str) or share < _NO_SHARE))


def as_share(name: str, value: object, rule: str, is_valid: Callable[[float], bool]) -> float:
    """Return the share of 1 that a number, or a text such as "5 %", states.

    Raises TypeError for a value of another type, and ValueError with ``rule`` for any other text or share.
    """
    if isinstance(value, str):
        number, sign, rest = value.strip().partition("%")
        if not sign or rest:
            raise ValueError(f"{name}={value!r} is not a share: {rule}")
        try:
            share = float(parse_number(number.strip())) / 100
        except ValueError as error:
            raise ValueError(f"{name}={value!r} is not a share: {error}") from None
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}={value!r} is not a number: {rule}")
    else:
        share = float(value)
    if math.isfinite(share) and is_valid(share):
        return share
    text = f"{name}={value!r}: {rule}"
    if isinstance(value, (int, float)) and value >= 1 and math.isfinite(value):
        text = f"{name}={value!r} means {figure(share * 100)} %: {rule}"
        if is_valid(share / 100):
            text += f"; write {name}={share / 100:.6g} for {figure(share)} %"
    raise ValueError(text)


def ratio(rate: Rate, other: Rate) -> float:
    """Return a rate as a multiple of ``other``. Raises TypeError if one is IOPS and the other bytes."""
    if isinstance(rate, Iops) and isinstance(other, Iops):
        return rate / other
    if isinstance(rate, Throughput) and isinstance(other, Throughput):
        return rate / other
    raise TypeError(f"{rate} and {other} are different quantities: IOPS and throughput have no ratio")

"""The plain values behind a verdict on any kind of run, and runs that gave no rate."""

from __future__ import annotations

from typing import Any

from pytest_cloudbench.limits.quantities import Bandwidth, Rate, Throughput
from pytest_cloudbench.verdicts.details import details_of, not_measured
from pytest_cloudbench.verdicts.little import Unusable, inconsistent
from pytest_cloudbench.verdicts.network.details import (
    conditions_of,
    falls_details,
    network_details,
    network_not_measured,
)
from pytest_cloudbench.verdicts.network.observation import is_network
from pytest_cloudbench.verdicts.timeline import AnyObservation, Timeline, as_storage


def unusable(obs: AnyObservation, measured: Rate) -> Unusable | None:
    """What is wrong with a run that gave no rate, or figures that contradict each other; None for a good one."""
    if is_network(obs):
        assert isinstance(measured, Throughput)
        missing = network_not_measured(Bandwidth.of(measured))
    else:
        missing = not_measured(measured)
    if missing is not None:
        return Unusable(missing.removeprefix("inconclusive: "))
    return None if is_network(obs) else inconsistent(as_storage(obs))


def run_details(
    obs: AnyObservation, measured: Rate, *, within: float, asked: Rate | None, line: Timeline
) -> dict[str, Any]:
    """Everything a verdict was drawn from, as text, numbers and lists (rates in I/Os or bytes a second)."""
    if is_network(obs):
        bits = Bandwidth.of(asked) if isinstance(asked, Throughput) else None
        found = network_details(obs, within=within, asked=bits)
    else:
        found = details_of(as_storage(obs), within=within, asked=asked or measured, measured=measured)
        found |= {} if asked is not None else {"asked": None}
        found |= conditions_of(obs)
    return found | falls_details(line.falls)
